"""Benchmarks behind the figures in the README: `python -m bench` (see bench/README.md)."""
