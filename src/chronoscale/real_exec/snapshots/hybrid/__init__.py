"""Hybrid batches (DynaHB): some nodes in a window of snapshots, whose sizes an agent chooses while training."""
