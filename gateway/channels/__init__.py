"""Chat platforms, each a package of its own, and what they share."""

# The schema of the settings loads the spec of each channel, so it has to be complete first.
import gateway.config  # noqa: F401
