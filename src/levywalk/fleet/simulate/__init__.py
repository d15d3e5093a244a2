"""A whole fleet in one process, in virtual time."""
