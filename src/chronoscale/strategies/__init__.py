"""Floor 2: the shared language (workload, schedule, trace, costs, cluster) and one folder a system."""
