"""Setups that several subjects share: graphs, event streams, signals, jobs, and the memory of a process."""
