"""What other programs and other people write: their settings, in our words, and their hooks."""
