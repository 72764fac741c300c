"""Baselines on snapshot sequences (DTDG)."""
