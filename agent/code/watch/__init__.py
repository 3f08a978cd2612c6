"""Watching the folders of a project: which files were created, changed and deleted."""
