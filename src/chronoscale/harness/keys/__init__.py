"""What an experiment file may say: its keys, their types, their checks, their reference."""
