"""Benchmarks of code intelligence."""
