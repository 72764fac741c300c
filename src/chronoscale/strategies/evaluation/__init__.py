"""What is read off traces: metrics, fidelity of predictions, rank correlations."""
