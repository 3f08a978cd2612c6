class ConfigError(Exception):
    """A layer cannot be read, or a key is missing."""
