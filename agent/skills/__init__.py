"""Skills: folders with a SKILL.md that the model reads on demand."""
