"""Training on snapshots."""
