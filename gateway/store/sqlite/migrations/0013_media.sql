-- Files that a message takes along, as JSON: a copy's path or a text, its name and its kind.
ALTER TABLE outbox ADD COLUMN files TEXT NOT NULL DEFAULT '[]';

-- An inbox row that is `held` is not worked on yet, and nothing behind it in its lane: its files are
-- being fetched, or the album that it is the first part of may still grow. `ready_at` (Unix time) is
-- when an album has been still for long enough.
ALTER TABLE inbox ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
ALTER TABLE inbox ADD COLUMN ready_at REAL NOT NULL DEFAULT 0;
-- chat:album, for parts that follow.
ALTER TABLE inbox ADD COLUMN album TEXT;
CREATE INDEX inbox_album ON inbox (channel, account, album) WHERE album IS NOT NULL;
CREATE INDEX inbox_held ON inbox (seq) WHERE held AND turn_id IS NULL AND dead_reason IS NULL;
