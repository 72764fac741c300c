"""Rows of an epoch whose batches each rank computes by itself, all ranks with equal copies of node memory."""
