"""A node as a process of its own: transport, control socket, metrics and its own data."""
