"""Floor 3: schedules replayed on a modelled cluster."""
