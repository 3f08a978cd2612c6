"""A person who uses the web page for an hour: `python -m tests.soak_web --minutes 60`."""
