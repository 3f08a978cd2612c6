-- A preview's first send may have left a message that no id tells of: set before that send, and taken
-- back once it is known how it ended. The reply then says that an earlier version may be there.
ALTER TABLE outbox ADD COLUMN preview_lost INTEGER NOT NULL DEFAULT 0;
UPDATE outbox SET preview_lost = 1, maybe_dup = 1 WHERE state = 'streaming' AND provider_msg IS NULL;
