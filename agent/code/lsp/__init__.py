"""Language servers: processes, documents and requests."""
