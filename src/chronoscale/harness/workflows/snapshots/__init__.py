"""Workflow of experiments on snapshots."""
