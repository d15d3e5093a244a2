"""Keys and certificates: who a node is, and how its signatures are made and checked."""
