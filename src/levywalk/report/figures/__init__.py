"""The figures, drawn with matplotlib: this package is the only one that imports it."""
