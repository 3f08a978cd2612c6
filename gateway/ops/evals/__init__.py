"""Test cases for the agent as data, with a runner and checks."""
