"""What makes batches out of snapshots: partitions, chunks, layouts, sampled neighbours."""
