"""Commands for the server: run it, connect to it, and manage its tokens."""
