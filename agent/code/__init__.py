"""Code intelligence: language servers, symbols, watches and drafts of edits."""
