"""Sub-agents: their definitions, catalogue, permissions and execution."""
