"""How one rank executes a schedule: rows, lanes, programs, passes and CUDA graphs."""
