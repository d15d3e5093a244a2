"""The real nodes: a hand-off that never loses the model, as a pure state machine, and what drives it."""
