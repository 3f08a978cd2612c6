-- A number of the outbox is never given twice: a console says by it what it has shown, and a row
-- that gets the number of one that was deleted would look as if it had been shown. PostgreSQL's
-- identity columns do so by themselves.
CREATE TABLE outbox_new (
    seq                 INTEGER PRIMARY KEY AUTOINCREMENT,
    delivery_id         TEXT NOT NULL,
    part                INTEGER NOT NULL,
    is_last             INTEGER NOT NULL DEFAULT 1,
    turn_id             INTEGER REFERENCES turn (id),
    lane                TEXT NOT NULL,
    channel             TEXT NOT NULL,
    account             TEXT NOT NULL,
    chat                TEXT NOT NULL,
    thread              TEXT,
    reply_to            TEXT,
    event_id            TEXT,
    kind                TEXT NOT NULL CHECK (kind IN ('final', 'notice', 'approval')),
    body                TEXT NOT NULL,
    entities            TEXT NOT NULL DEFAULT '[]',
    buttons             TEXT NOT NULL DEFAULT '[]',
    edits               TEXT,
    state               TEXT NOT NULL CHECK (state IN ('streaming', 'pending', 'inflight', 'sent', 'dead')),
    provider_message_id TEXT,
    attempts            INTEGER NOT NULL DEFAULT 0,
    ambiguous_attempts  INTEGER NOT NULL DEFAULT 0,
    next_at             REAL NOT NULL DEFAULT 0,
    maybe_duplicate     INTEGER NOT NULL DEFAULT 0,
    dead_reason         TEXT,
    created_at          REAL NOT NULL,
    files               TEXT NOT NULL DEFAULT '[]',
    preview_lost        INTEGER NOT NULL DEFAULT 0,
    waited_s            REAL NOT NULL DEFAULT 0,
    is_shown            INTEGER NOT NULL DEFAULT 0,
    UNIQUE (delivery_id, part)
) STRICT;
INSERT INTO outbox_new (seq, delivery_id, part, is_last, turn_id, lane, channel, account, chat,
    thread, reply_to, event_id, kind, body, entities, buttons, edits, state, provider_message_id,
    attempts, ambiguous_attempts, next_at, maybe_duplicate, dead_reason, created_at, files,
    preview_lost, waited_s, is_shown)
SELECT seq, delivery_id, part, is_last, turn_id, lane, channel, account, chat, thread, reply_to,
    event_id, kind, body, entities, buttons, edits, state, provider_message_id, attempts,
    ambiguous_attempts, next_at, maybe_duplicate, dead_reason, created_at, files, preview_lost,
    waited_s, is_shown FROM outbox;
DROP TABLE outbox;
ALTER TABLE outbox_new RENAME TO outbox;
CREATE INDEX outbox_waiting ON outbox (lane, seq) WHERE state IN ('pending', 'inflight');
CREATE INDEX outbox_turn ON outbox (turn_id);
CREATE INDEX outbox_sent ON outbox (provider_message_id, lane);
CREATE INDEX outbox_streaming ON outbox (lane) WHERE state = 'streaming';
CREATE TRIGGER outbox_pairing AFTER UPDATE OF state ON outbox
WHEN NEW.delivery_id LIKE 'pair:%' AND NEW.state IN ('sent', 'dead')
BEGIN
    UPDATE outbox SET body = '', entities = '[]', buttons = '[]' WHERE seq = NEW.seq;
END;
