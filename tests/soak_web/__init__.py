"""Soak test of the web page, one hour of use: `python -m tests.soak_web --minutes 60`."""
