"""The first five minutes: questions in a terminal, and what their answers become."""
