-- Who was let in, who asks to be, and who guesses. Times are Unix seconds.

CREATE TABLE member (
    channel     TEXT NOT NULL,
    account     TEXT NOT NULL,
    sender      TEXT NOT NULL,  -- the platform's numeric id
    name        TEXT NOT NULL,  -- for people to read; decides nothing
    owner       INTEGER NOT NULL DEFAULT 0,
    approved_by TEXT NOT NULL,
    approved_at REAL NOT NULL,
    PRIMARY KEY (channel, account, sender)
) STRICT, WITHOUT ROWID;

-- One row a person, so that nobody gets a second code before the first one has expired.
CREATE TABLE pairing (
    channel    TEXT NOT NULL,
    account    TEXT NOT NULL,
    sender     TEXT NOT NULL,
    chat       TEXT NOT NULL,
    name       TEXT NOT NULL,
    code_hash  BLOB,            -- NULL: turned down; nothing more is sent until it expires
    asked_at   REAL NOT NULL,
    expires_at REAL NOT NULL,
    PRIMARY KEY (channel, account, sender)
) STRICT, WITHOUT ROWID;

-- Wrong codes in a row, by who tried them.
CREATE TABLE guess (
    principal    TEXT PRIMARY KEY,
    wrong        INTEGER NOT NULL,
    locked_until REAL NOT NULL
) STRICT;

-- Messages of strangers are kept only as far as the newest ones.
CREATE INDEX inbox_denied ON inbox (seq) WHERE dead_reason = 'not on the allow-list';

-- A letter with a pairing code in it is forgotten once it is out, or given up.
CREATE TRIGGER outbox_pairing AFTER UPDATE OF state ON outbox
WHEN NEW.delivery_id LIKE 'pair:%' AND NEW.state IN ('sent', 'dead')
BEGIN
    UPDATE outbox SET body = '', entities = '[]', buttons = '[]' WHERE seq = NEW.seq;
END;
