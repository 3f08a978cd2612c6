"""Tamper-evident audit log of permission decisions."""
