"""Tools that hunt for a schedule that breaks the hand-off: part of the product, for whoever changes it."""
