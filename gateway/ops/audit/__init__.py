"""The audit log: who was allowed to do what, so written that a later change of it shows."""
