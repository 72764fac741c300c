"""A schedule executed by one rank: its rows, lanes, programs and CUDA graphs."""
