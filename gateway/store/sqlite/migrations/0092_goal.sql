-- A session may have a goal.
CREATE TABLE goal (
    session     TEXT PRIMARY KEY REFERENCES session (id),
    principal   TEXT NOT NULL,
    template    TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('active', 'paused', 'met')),
    reason      TEXT NOT NULL DEFAULT '',
    remark      TEXT NOT NULL,
    next_event  TEXT,
    turns       INTEGER NOT NULL DEFAULT 0,
    max_turns   INTEGER NOT NULL,
    worked_s    REAL NOT NULL DEFAULT 0,
    max_s       REAL NOT NULL,
    before_nusd INTEGER NOT NULL,
    max_nusd    INTEGER,
    created_at  REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX goal_active ON goal (session) WHERE state = 'active';
