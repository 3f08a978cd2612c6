"""What the README quotes, measured: `python -m bench` (see bench/README.md)."""
