"""What a visited node does."""
