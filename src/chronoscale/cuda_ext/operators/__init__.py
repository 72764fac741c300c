"""Differentiable torch operators of dynamic graph models, each with native kernels and a reference."""
