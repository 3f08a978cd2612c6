"""Kore's version, which the build reads from this file."""

VERSION = "0.1.0"
