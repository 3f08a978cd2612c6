-- Facts about this database itself. `cipher`: a known text, sealed with the key that everything
-- people said is sealed with; without that row nothing is sealed.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
