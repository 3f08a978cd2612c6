"""Symbols of source files, parsed with tree-sitter grammars."""
