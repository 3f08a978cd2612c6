"""Configuration by others: settings of other programs, hooks and plugins."""
