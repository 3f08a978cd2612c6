"""Tools that make pictures, summaries and archives, where they are configured."""
