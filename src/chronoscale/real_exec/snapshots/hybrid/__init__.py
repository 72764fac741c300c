"""Hybrid: batches of own nodes in random windows, each rank for itself, parameters averaged beside the next batch (`dynahb`)."""
