"""Training epoch after epoch: plans, a learner, checkpoints, the best epoch."""
