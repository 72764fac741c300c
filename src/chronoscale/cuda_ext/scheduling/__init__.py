"""Native engines of planning and replay: pairing of snapshot groups, one-pass partitioning of events, the simulator's replay."""
