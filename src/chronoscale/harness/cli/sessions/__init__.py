"""Sessions: what a command does with an experiment that has been read; a module is imported when its command is called."""
