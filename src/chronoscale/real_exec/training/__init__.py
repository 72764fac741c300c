"""Epoch after epoch: the loop, its optimiser, checkpoints and the best model."""
