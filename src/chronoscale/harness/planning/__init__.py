"""Schedules of an experiment's strategies, what they will take, and the costs that they are planned with."""
