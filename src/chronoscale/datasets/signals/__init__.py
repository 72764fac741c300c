"""Signals on a static graph."""
