"""Streams of events (CTDG)."""
