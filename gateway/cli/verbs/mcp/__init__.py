"""`kore mcp`: what it does, and its logins."""
