"""Sliding windows on blocks of vertices (FlareDTDG §3): a snapshot stays on the device from window to window, and shrinks with its age.

The cells of `real_exec.snapshots.cells`, on rows whose number falls with a snapshot's age, and states that windows inherit.
"""
