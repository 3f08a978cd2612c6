"""Crash loop: a real gateway must fulfil every guarantee when it is killed repeatedly."""
