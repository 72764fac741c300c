"""Batches of snapshots: vertex partitions, chunks, layouts, sampled neighbours, splits in time."""
