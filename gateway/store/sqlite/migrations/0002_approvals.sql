-- Questions to a person. A turn with an open one is `waiting`: nothing of it runs anywhere.

CREATE TABLE approval (
    id          INTEGER PRIMARY KEY,  -- the number that people are shown
    nonce       TEXT NOT NULL UNIQUE,
    turn_id     INTEGER NOT NULL REFERENCES turn (id),
    step        INTEGER NOT NULL,     -- step.n of the call that asks
    args_hash   TEXT NOT NULL,        -- of all that the person was shown
    grant_hash  TEXT NOT NULL,        -- of what a standing answer would bind
    lane        TEXT NOT NULL,        -- where the turn runs
    session     TEXT NOT NULL REFERENCES session (id),
    asker       TEXT NOT NULL,        -- whose turn asks
    principal   TEXT NOT NULL,        -- who may answer
    channel     TEXT NOT NULL,        -- where the question is put
    account     TEXT NOT NULL,
    chat        TEXT NOT NULL,
    thread      TEXT,
    question    TEXT NOT NULL,
    asked_at    REAL NOT NULL,
    expires_at  REAL NOT NULL,
    state       TEXT NOT NULL CHECK (state IN
                ('open', 'once', 'session', 'always', 'deny', 'expired', 'withdrawn')),
    answered_by TEXT,
    answered_at REAL
) STRICT;
CREATE INDEX approval_step ON approval (turn_id, step);
CREATE INDEX approval_open ON approval (expires_at) WHERE state = 'open';

-- What a person allowed for more than once: exact arguments in one folder, never a tool's name.
CREATE TABLE standing (
    id         INTEGER PRIMARY KEY,  -- the number that people are shown
    principal  TEXT NOT NULL,
    session    TEXT NOT NULL,        -- '': in every session
    grant_hash TEXT NOT NULL,
    title      TEXT NOT NULL,
    folder     TEXT NOT NULL,
    granted_by TEXT NOT NULL,
    granted_at REAL NOT NULL,
    UNIQUE (principal, session, grant_hash)
) STRICT;

-- The outbox again, with questions: `buttons` stand below a message, and a message with `edits`
-- takes the place of that delivery's first part.
CREATE TABLE outbox_new (
    seq          INTEGER PRIMARY KEY,
    delivery_id  TEXT NOT NULL,
    part         INTEGER NOT NULL,
    last         INTEGER NOT NULL DEFAULT 1,
    turn_id      INTEGER REFERENCES turn (id),
    lane         TEXT NOT NULL,
    channel      TEXT NOT NULL,
    account      TEXT NOT NULL,
    chat         TEXT NOT NULL,
    thread       TEXT,
    reply_to     TEXT,
    event_id     TEXT,
    kind         TEXT NOT NULL CHECK (kind IN ('final', 'notice', 'approval')),
    body         TEXT NOT NULL,
    entities     TEXT NOT NULL DEFAULT '[]',
    buttons      TEXT NOT NULL DEFAULT '[]',
    edits        TEXT,
    state        TEXT NOT NULL CHECK (state IN ('streaming', 'pending', 'inflight', 'sent', 'dead')),
    provider_msg TEXT,
    attempts     INTEGER NOT NULL DEFAULT 0,
    ambiguous    INTEGER NOT NULL DEFAULT 0,
    next_at      REAL NOT NULL DEFAULT 0,
    maybe_dup    INTEGER NOT NULL DEFAULT 0,
    dead_reason  TEXT,
    created_at   REAL NOT NULL,
    UNIQUE (delivery_id, part)
) STRICT;
INSERT INTO outbox_new (seq, delivery_id, part, last, turn_id, lane, channel, account, chat, thread,
    reply_to, event_id, kind, body, entities, state, provider_msg, attempts, ambiguous, next_at,
    maybe_dup, dead_reason, created_at)
SELECT seq, delivery_id, part, last, turn_id, lane, channel, account, chat, thread,
    reply_to, event_id, kind, body, entities, state, provider_msg, attempts, ambiguous, next_at,
    maybe_dup, dead_reason, created_at FROM outbox;
DROP TABLE outbox;
ALTER TABLE outbox_new RENAME TO outbox;
CREATE INDEX outbox_waiting ON outbox (lane, seq) WHERE state IN ('pending', 'inflight');
CREATE INDEX outbox_turn ON outbox (turn_id);
