"""How the processes (ranks) of a job start, meet, are watched, fail and end."""
