"""The hand-off of the model as a pure state machine: no sockets, no files, no clock."""
