"""What Kore knows of code, measured."""
