"""Chat platforms, with one package each, and their shared code."""

# The settings schema loads each channel's spec, so it must be complete first.
import gateway.config  # noqa: F401
