"""Training on event streams."""
