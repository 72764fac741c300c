"""Floor 5: the command line, experiment files, runs on disk."""
