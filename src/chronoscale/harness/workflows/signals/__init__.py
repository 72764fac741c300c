"""Workflow of experiments on signals."""
