"""Launching: commands handed to the scheduler of a cluster."""
