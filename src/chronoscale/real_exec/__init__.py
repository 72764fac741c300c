"""Floor 3: schedules executed on real devices; profiles and fitted cost models."""
