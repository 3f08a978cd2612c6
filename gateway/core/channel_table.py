"""Table of the built-in channels."""

# Name -> `gateway.channels.spec.ChannelSpec` as `module:attribute`, like an entry point.
CHANNELS = {"telegram": "gateway.channels.telegram.spec:SPEC"}
# The channel for people who are given by number alone, and for examples.
DEFAULT_CHANNEL = "telegram"
