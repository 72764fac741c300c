"""Windows: sliding windows of snapshots whose vertices all ranks share, older snapshots in part (FlareDTDG §3).

The cells of `real_exec.snapshots.cells` on rows whose number falls with a snapshot's age, and states that windows inherit.
"""
