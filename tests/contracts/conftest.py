"""Folders that pytest must not collect."""

# Small projects for the language servers; their tests are not part of this suite.
collect_ignore = ["lsp_projects"]
