"""Calls that no mode asks about."""

from pathlib import Path

HARMLESS = Path(__file__).parents[1] / "shell" / "harmless_commands.txt"
