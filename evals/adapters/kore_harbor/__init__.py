"""Kore in harbor and terminal-bench: an installed agent and its trajectories.

`trajectory` needs only Python; `agent` needs harbor.
"""
