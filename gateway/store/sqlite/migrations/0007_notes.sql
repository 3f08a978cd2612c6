-- What the audit log is still to be told of. It is stored together with what it tells of, so that
-- no crash comes between the two; `params` is a JSON object.
CREATE TABLE note (
    id      INTEGER PRIMARY KEY,
    at      REAL NOT NULL,
    what    TEXT NOT NULL,
    reason  TEXT NOT NULL,
    allowed INTEGER NOT NULL,
    session TEXT NOT NULL,
    params  TEXT NOT NULL
) STRICT;
