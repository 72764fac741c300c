"""Sampled: sliding windows of sampled snapshots whose first layer's aggregates are cached (`dynagraph`)."""
