"""The crash loop: a real gateway, killed again and again, must keep every promise."""
