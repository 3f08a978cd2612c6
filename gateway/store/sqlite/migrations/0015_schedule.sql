-- Jobs that come due by themselves. `template` is the inbound message that a job is made of: its
-- route, its maker, what is said or asked. Times are Unix seconds.
CREATE TABLE job (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,  -- what people call it by; never given twice
    made_by    TEXT NOT NULL UNIQUE,               -- the call or message that made it: made once
    kind       TEXT NOT NULL CHECK (kind IN ('reminder', 'prompt', 'heartbeat')),
    template   TEXT NOT NULL,
    principal  TEXT NOT NULL,
    channel    TEXT NOT NULL,
    account    TEXT NOT NULL,
    chat       TEXT NOT NULL,
    rule       TEXT NOT NULL,                      -- 'at 1795338000', 'every 7200', 'cron 0 9 * * 1-5'
    zone       TEXT NOT NULL,                      -- IANA
    catch_up   TEXT NOT NULL CHECK (catch_up IN ('skip', 'once', 'all')),
    urgent     INTEGER NOT NULL DEFAULT 0,         -- quiet hours do not hold it
    own        INTEGER NOT NULL DEFAULT 0,         -- a prompt: a conversation of its own each time
    state      TEXT NOT NULL DEFAULT 'on' CHECK (state IN ('on', 'paused', 'done', 'failed')),
    reason     TEXT NOT NULL DEFAULT '',           -- why it is not on
    failures   INTEGER NOT NULL DEFAULT 0,         -- in a row
    slot_at    INTEGER,                            -- the first slot that nothing was done for
    due_at     REAL,                               -- when to look: then, or when quiet hours end
    held       INTEGER NOT NULL DEFAULT 0,         -- quiet hours have held it
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX job_due ON job (due_at) WHERE state = 'on';

-- What became of a slot. Whether it was delivered is told by the outbox, whether a prompt ran by
-- its turn: `cron:JOB:AT` is the event, and for a reminder the delivery.
CREATE TABLE slot (
    job      INTEGER NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    at       INTEGER NOT NULL,
    fired_at REAL NOT NULL,
    state    TEXT NOT NULL CHECK (state IN ('begun', 'ran', 'failed', 'missed')),
    note     TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (job, at)
) STRICT, WITHOUT ROWID;

-- What a chat has chosen for itself.
CREATE TABLE chat_clock (
    chat  TEXT PRIMARY KEY,  -- channel:account:chat
    zone  TEXT,
    quiet TEXT               -- '22:00-07:00', or 'off'
) STRICT;
