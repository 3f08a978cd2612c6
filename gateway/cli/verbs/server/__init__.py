"""Verbs about the server: run it, reach it, and who may."""
