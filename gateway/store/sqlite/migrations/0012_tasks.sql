-- Errands of sub-agents. A row is stored together with the inbox row that asks for the errand, and
-- ended together with the sub-agent's last message and with what tells its caller.
CREATE TABLE task (
    id           INTEGER PRIMARY KEY,                       -- the number that people are shown
    turn_id      INTEGER NOT NULL REFERENCES turn (id),     -- the turn whose call sent it out,
    step         INTEGER NOT NULL,                          -- and step.n of that call
    caller       TEXT NOT NULL REFERENCES session (id),
    caller_lane  TEXT NOT NULL,
    root_turn    INTEGER NOT NULL REFERENCES turn (id),     -- the turn that answers a person
    root_session TEXT NOT NULL REFERENCES session (id),
    root_lane    TEXT NOT NULL,
    depth        INTEGER NOT NULL,
    session      TEXT NOT NULL REFERENCES session (id),     -- the sub-agent's own
    lane         TEXT NOT NULL,
    agent        TEXT NOT NULL,
    definition   TEXT NOT NULL,                             -- as it was when it was sent out
    title        TEXT NOT NULL,
    model        TEXT,
    background   INTEGER NOT NULL,
    state        TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed', 'stopped')),
    result       TEXT,
    taint        TEXT NOT NULL DEFAULT '',
    asked_at     REAL NOT NULL,
    ended_at     REAL,
    UNIQUE (turn_id, step)
) STRICT;
CREATE INDEX task_running ON task (caller_lane) WHERE state = 'running';
CREATE INDEX task_session ON task (session);

-- The turn that made the call, where `turn_id` is that of the person's message it was made for.
ALTER TABLE usage ADD COLUMN by_turn INTEGER;
