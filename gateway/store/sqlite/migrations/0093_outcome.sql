-- A reply may refuse a command, or tell the state of a goal.
ALTER TABLE outbox ADD COLUMN outcome TEXT;
