"""Words after `/worktree` that name no worktree."""

LEAVE = "leave"
ACTIONS = ("list", "merge", "remove")
