"""Benchmarks of user interfaces."""
