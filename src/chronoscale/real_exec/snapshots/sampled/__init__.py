"""Windows of snapshots whose neighbours are sampled anew in every epoch (DynaGraph)."""
