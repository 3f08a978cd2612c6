"""Command lines of daily work, and the project and the places in which they run."""
