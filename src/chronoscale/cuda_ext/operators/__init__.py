"""Differentiable torch operators, each with a native kernel and a reference."""
