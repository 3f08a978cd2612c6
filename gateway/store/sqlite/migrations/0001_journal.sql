-- Everything that must survive a crash. Times are Unix seconds; JSON forms are those of
-- agent/serialization.py (messages, results) and gateway/control/protocol.py (inbound messages).

CREATE TABLE cursor (
    channel     TEXT NOT NULL,
    account     TEXT NOT NULL,
    next_offset INTEGER NOT NULL,
    seen_at     REAL NOT NULL,
    PRIMARY KEY (channel, account)
) STRICT;

-- One row for each thing a platform told us, also for what we did not act on (dead_reason).
CREATE TABLE inbox (
    seq         INTEGER PRIMARY KEY,
    channel     TEXT NOT NULL,
    account     TEXT NOT NULL,
    event_id    TEXT NOT NULL,
    source_msg  TEXT,
    lane        TEXT NOT NULL,
    principal   TEXT NOT NULL,
    payload     TEXT NOT NULL,
    received_at REAL NOT NULL,
    turn_id     INTEGER REFERENCES turn (id),
    dead_reason TEXT,
    UNIQUE (channel, account, event_id)
) STRICT;
CREATE INDEX inbox_waiting ON inbox (lane, seq) WHERE turn_id IS NULL AND dead_reason IS NULL;
CREATE INDEX inbox_source ON inbox (channel, account, source_msg);
CREATE INDEX inbox_turn ON inbox (turn_id) WHERE turn_id IS NOT NULL;

CREATE TABLE session (
    id             TEXT PRIMARY KEY,
    name           TEXT NOT NULL DEFAULT '',
    agent          TEXT NOT NULL DEFAULT 'default',
    status         TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'paused', 'closed')),
    parent         TEXT REFERENCES session (id),
    parent_n       INTEGER,
    head           INTEGER NOT NULL DEFAULT 0,  -- messages before this one have left the window
    principal      TEXT NOT NULL,
    created_at     REAL NOT NULL,
    last_active_at REAL NOT NULL,
    metadata       TEXT NOT NULL DEFAULT '{}'
) STRICT;
CREATE INDEX session_recent ON session (last_active_at);

-- Which session a chat or topic is in now; /new changes it.
CREATE TABLE binding (
    lane    TEXT PRIMARY KEY,
    session TEXT NOT NULL REFERENCES session (id)
) STRICT;

CREATE TABLE turn (
    id             INTEGER PRIMARY KEY,
    session        TEXT REFERENCES session (id),  -- NULL: a chat command
    lane           TEXT NOT NULL,
    state          TEXT NOT NULL CHECK (state IN ('running', 'waiting', 'done', 'dead')),
    stop_requested INTEGER NOT NULL DEFAULT 0,
    attempts       INTEGER NOT NULL DEFAULT 1,
    progress       INTEGER NOT NULL DEFAULT 0,  -- journaled steps when it was last started
    suspended      INTEGER NOT NULL DEFAULT 0,  -- put down by a clean stop
    created_at     REAL NOT NULL,
    ended_at       REAL
) STRICT;
CREATE UNIQUE INDEX turn_live_lane ON turn (lane) WHERE state IN ('running', 'waiting');
CREATE UNIQUE INDEX turn_live_session ON turn (session) WHERE state IN ('running', 'waiting');

CREATE TABLE message (
    session    TEXT NOT NULL REFERENCES session (id),
    n          INTEGER NOT NULL,
    turn_id    INTEGER REFERENCES turn (id),
    role       TEXT NOT NULL,
    content    TEXT NOT NULL,
    created_at REAL NOT NULL,
    PRIMARY KEY (session, n)
) STRICT, WITHOUT ROWID;

-- Tool calls only. `effect` decides what a crash makes of a call that had started.
CREATE TABLE step (
    turn_id  INTEGER NOT NULL REFERENCES turn (id),
    n        INTEGER NOT NULL,
    reply    INTEGER NOT NULL,  -- message.n of the reply that asked for it
    call_id  TEXT NOT NULL,
    tool     TEXT NOT NULL,
    effect   TEXT NOT NULL CHECK (effect IN ('read', 'idempotent', 'unsafe')),
    idem_key TEXT NOT NULL UNIQUE,
    args     TEXT NOT NULL,
    state    TEXT NOT NULL CHECK (state IN ('planned', 'started', 'done', 'unknown')),
    result   TEXT,
    taint    TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (turn_id, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE outbox (
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
    kind         TEXT NOT NULL CHECK (kind IN ('final', 'notice')),
    body         TEXT NOT NULL,
    entities     TEXT NOT NULL DEFAULT '[]',
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
CREATE INDEX outbox_waiting ON outbox (lane, seq) WHERE state IN ('pending', 'inflight');
CREATE INDEX outbox_turn ON outbox (turn_id);
