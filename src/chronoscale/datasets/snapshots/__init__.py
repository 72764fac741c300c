"""Sequences of snapshots (DTDG)."""
