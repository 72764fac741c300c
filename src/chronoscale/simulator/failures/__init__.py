"""Trainings whose devices fail: plans of failures, restarts, and what they come to over many draws."""
