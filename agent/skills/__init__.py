"""Skills: folders with a SKILL.md, whose text the model reads when it needs it."""
