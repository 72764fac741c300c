"""Native engines that plan and replay: pairing of snapshot groups, one-pass partitioning, the simulator's replay."""
