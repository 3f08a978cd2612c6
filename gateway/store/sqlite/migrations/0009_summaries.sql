-- What is told of messages that have left a session's window: all up to message `upto`, but for
-- `request`, a user message that stays in front of what follows. The newest one counts.
CREATE TABLE summary (
    session    TEXT NOT NULL REFERENCES session (id),
    upto       INTEGER NOT NULL,
    request    INTEGER,
    content    TEXT NOT NULL,
    taint      TEXT NOT NULL DEFAULT '',
    told       INTEGER NOT NULL DEFAULT 0,  -- whether the chat was told of it
    created_at REAL NOT NULL,
    PRIMARY KEY (session, upto)
) STRICT, WITHOUT ROWID;

-- Long results of tools up to this message are shown to the model as a line.
ALTER TABLE session ADD COLUMN pruned INTEGER NOT NULL DEFAULT 0;

-- A turn that goes on counts its messages; a long session must not be gone through for that.
CREATE INDEX message_turn ON message (turn_id) WHERE turn_id IS NOT NULL;
