-- Chats that were given a new id by their platform: a group that has become a supergroup. `first`
-- is what everything else here calls the chat, `now` what the platform does.
CREATE TABLE move (
    channel TEXT NOT NULL,
    first   TEXT NOT NULL,
    now     TEXT NOT NULL,
    PRIMARY KEY (channel, first)
) STRICT, WITHOUT ROWID;

-- What was said in a group, not to us, since the last answer there: shown to the model as
-- strangers' words with the next message that is for us, and gone then. `text` is sealed.
CREATE TABLE overheard (
    n          INTEGER PRIMARY KEY,
    channel    TEXT NOT NULL,
    account    TEXT NOT NULL,
    event_id   TEXT NOT NULL,
    lane       TEXT NOT NULL,
    message_id TEXT,
    text       TEXT NOT NULL,
    UNIQUE (channel, account, event_id)
) STRICT;
CREATE INDEX overheard_lane ON overheard (lane, n);

-- Groups and people that a bot was added to, thrown out of or blocked by. Unix seconds.
CREATE TABLE whereabouts (
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    chat    TEXT NOT NULL,
    state   TEXT NOT NULL CHECK (state IN ('in', 'muted', 'out')),
    reason  TEXT NOT NULL,
    at      REAL NOT NULL,
    PRIMARY KEY (channel, account, chat)
) STRICT, WITHOUT ROWID;
