"""Kore in harbor and terminal-bench: an installed agent and its trajectories.

`trajectory` needs nothing but Python; `agent` needs harbor.
"""
