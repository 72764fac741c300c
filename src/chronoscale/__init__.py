"""Train dynamic graph neural networks for real; predict them on the cluster you do not have."""
