"""Evaluation of traces: metrics, fidelity of predictions, rank correlations."""
