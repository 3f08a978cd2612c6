"""Proof that a model which obeys every attacker leaks nothing (docs/security.md)."""
