"""Strategies executed on this machine: profiles, benchmarks, trainings, and how well replays predict them."""
