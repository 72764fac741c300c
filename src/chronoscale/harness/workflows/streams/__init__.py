"""Workflow of experiments on event streams."""
