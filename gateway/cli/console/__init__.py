"""The terminal: one conversation on a screen, spoken with whoever owns the data."""
