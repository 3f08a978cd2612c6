"""Watches on project folders that report created, changed and deleted files."""
