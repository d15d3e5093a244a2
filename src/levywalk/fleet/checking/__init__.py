"""Tools that search for bugs of the hand-off.

They are part of the package, for anyone who changes the protocol.
"""
