-- What people choose for a session, and what is counted of it, each in a column of its own. NULL:
-- nobody has chosen. `choice_bits` is what choices have told strangers since a person's last message,
-- `begun_by` the inbox row of the command that began the session.
ALTER TABLE session ADD COLUMN model TEXT;
ALTER TABLE session ADD COLUMN permission_mode TEXT;
ALTER TABLE session ADD COLUMN queue_mode TEXT;
ALTER TABLE session ADD COLUMN thinking_wanted INTEGER;
ALTER TABLE session ADD COLUMN thinking_shown INTEGER NOT NULL DEFAULT 1;
ALTER TABLE session ADD COLUMN trace TEXT;
ALTER TABLE session ADD COLUMN choice_bits REAL NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN begun_by INTEGER;
UPDATE session SET
    model = metadata ->> '$.model',
    permission_mode = metadata ->> '$.mode',
    queue_mode = metadata ->> '$.queue',
    thinking_wanted = metadata ->> '$.thinking.wanted',
    thinking_shown = coalesce(metadata ->> '$.thinking.shown', 1),
    trace = metadata ->> '$.trace',
    choice_bits = coalesce(metadata ->> '$.bits', 0),
    begun_by = CASE WHEN parent IS NULL THEN metadata ->> '$.begun_by' END
    WHERE metadata <> '{}';
ALTER TABLE session DROP COLUMN metadata;
