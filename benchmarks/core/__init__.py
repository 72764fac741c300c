"""The core of all benchmarks: cases, timing in turns, results as JSON, tables and comparisons."""
