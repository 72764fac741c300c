"""Sequences of snapshots (discrete-time dynamic graphs)."""
