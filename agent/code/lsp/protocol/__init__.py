"""The Language Server Protocol itself: bytes, messages, positions, addresses, edits."""
