"""Language servers: started, kept in step with drafts of files, and asked."""
