"""Faces that Kore is reached by."""
