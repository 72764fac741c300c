"""Epochs replayed stretch by stretch, of which figures are kept and no trace."""
