"""Streams of events (continuous-time dynamic graphs)."""
