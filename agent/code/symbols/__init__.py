"""What code holds, told from its text alone by grammars of tree-sitter."""
