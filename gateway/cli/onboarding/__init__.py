"""First setup in a terminal: questions and the configuration from their answers."""
