"""The paper reproduced: its experiments, its figures, and a verdict on each of its claims."""
