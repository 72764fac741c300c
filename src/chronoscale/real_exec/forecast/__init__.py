"""Forecasters of signals on a static graph, and their errors where readings are missing."""
