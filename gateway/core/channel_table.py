"""Table of the built-in channels."""

# Name -> `gateway.channels.spec.ChannelSpec` as `module:attribute`, like an entry point.
CHANNELS = {"telegram": "gateway.channels.telegram.spec:SPEC"}
# Channel of people who are given only as a number, and of examples.
DEFAULT_CHANNEL = "telegram"
