"""Models on signals."""
