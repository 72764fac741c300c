"""Processes of a job: how ranks start, meet, communicate, are watched and end."""
