"""Test cases for the agent itself, as data, and how they are run and judged."""
