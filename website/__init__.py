"""The documentation site: ``python -m website`` builds it from docs/, examples/gallery and the
docstrings of the public names, without any connection to a network.
"""
