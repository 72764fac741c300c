"""Testbeds: cluster, workload and planner of a point, by the family of data that a paper trains on."""
