"""Addresses of the servers and folders that the configuration names."""
