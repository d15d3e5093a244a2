"""What a node writes to its disk, and how it reads it back."""
