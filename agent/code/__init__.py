"""What Kore knows of code: language servers, symbols, drafts of edits."""
