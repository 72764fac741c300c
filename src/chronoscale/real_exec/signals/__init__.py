"""Training on signals."""
