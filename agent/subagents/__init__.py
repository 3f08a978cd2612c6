"""Agents besides the main one: who they are, where they are found, and how one is sent out."""
