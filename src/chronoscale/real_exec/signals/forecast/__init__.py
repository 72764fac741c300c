"""Models on signals (forecasters)."""
