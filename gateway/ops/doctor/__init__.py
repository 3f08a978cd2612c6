"""Checks of `kore doctor`, each with a suggested fix."""
