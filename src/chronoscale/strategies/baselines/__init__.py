"""Systems that the five papers compare with; one file a baseline."""
