"""The terminal: one conversation on a screen, with the process that owns the data."""
