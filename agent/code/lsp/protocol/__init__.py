"""The Language Server Protocol: framing, messages, positions, URIs and edits."""
