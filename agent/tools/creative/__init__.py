"""Tools that make pictures, summaries and archives, each where it is configured."""
