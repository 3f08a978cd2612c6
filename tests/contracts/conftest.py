"""What pytest does not collect here."""

# Small projects that language servers are asked about; their tests are theirs.
collect_ignore = ["lsp_projects"]
