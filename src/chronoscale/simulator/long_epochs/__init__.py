"""Epochs too long for memory, replayed stretch by stretch; figures of them are kept and no trace."""
