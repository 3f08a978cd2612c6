"""A shop with two modules that know each other."""
