"""Table of the built-in channels."""

# Name -> its `gateway.channels.spec.ChannelSpec` as `module:attribute`, like an entry point.
CHANNELS = {"telegram": "gateway.channels.telegram.spec:SPEC"}
# The channel of people who are given by number alone, and of examples.
DEFAULT_CHANNEL = "telegram"
