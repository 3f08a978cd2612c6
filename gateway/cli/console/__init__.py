"""Terminal client for a conversation with the process that owns the data."""
