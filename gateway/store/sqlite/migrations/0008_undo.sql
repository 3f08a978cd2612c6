-- What tools did to files. `entry` has the path and what stood there before and after; the
-- contents lie in the folder `undo`. One step is one tool call.
CREATE TABLE change (
    step     INTEGER NOT NULL,
    n        INTEGER NOT NULL,
    session  TEXT NOT NULL,
    turn_id  INTEGER NOT NULL,
    call_id  TEXT NOT NULL,
    tool     TEXT NOT NULL,
    shared   INTEGER NOT NULL DEFAULT 0,
    standing TEXT NOT NULL CHECK (standing IN ('done', 'undone', 'kept', 'gone')),
    entry    TEXT NOT NULL,
    made_at  REAL NOT NULL,
    PRIMARY KEY (step, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX change_session ON change (session, step);
CREATE INDEX change_age ON change (made_at);

-- An undoing that has begun, so that a repetition after a crash is none; `report` ends it.
CREATE TABLE undoing (
    name    TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    plan    TEXT NOT NULL,
    report  TEXT,
    made_at REAL NOT NULL
) STRICT;
