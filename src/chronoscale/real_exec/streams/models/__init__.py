"""Models of event streams."""
