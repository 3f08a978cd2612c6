"""Table of the built-in channels."""

# Name -> its `gateway.channels.spec.ChannelSpec` as `module:attribute`, like an entry point.
CHANNELS = {"telegram": "gateway.channels.telegram.spec:SPEC"}
# The channel of a person who is given by number alone.
NUMERIC_CHANNEL = "telegram"
