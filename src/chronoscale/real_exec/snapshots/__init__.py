"""Training on snapshot sequences.

`material` prepares snapshots on the host; `model` and `convolution` are what is computed; `program` runs whole groups of snapshots, and
`cells`, `windows`, `sampled` and `hybrid` run what is spread over ranks, slides, or is drawn anew; `evaluation` and `scoring` score
held-out snapshots; `probe` makes schedules that a profile times.
"""
