"""Commands for extensions: skills, plugins and markets."""
