-- Vectors of texts by the SHA-256 of their model and text, so that each is asked for once. A cache:
-- whatever is missing is asked for again. Empty in a database with sealed texts.
CREATE TABLE embedding (
    digest  BLOB NOT NULL PRIMARY KEY,
    vector  BLOB NOT NULL,
    used_at REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX embedding_by_use ON embedding (used_at);
