"""Experiments on signals."""
