"""Table of the built-in channels."""

# Name -> `gateway.channels.spec.ChannelSpec` as `module:attribute`, like an entry point.
CHANNELS = {"telegram": "gateway.channels.telegram.spec:SPEC"}
# Channel of a person who is named only by a number; also used in examples.
DEFAULT_CHANNEL = "telegram"
