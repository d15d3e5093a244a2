"""What a walk's chain means for learning: entrapment, bounds, error floors, predictions and tuned
parameters.
"""
