-- Whether the message of a part shows it already, as the last edit of its preview: no edit follows.
ALTER TABLE outbox ADD COLUMN shown INTEGER NOT NULL DEFAULT 0;
