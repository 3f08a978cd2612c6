-- A session knows its folder, and is found by it.
ALTER TABLE session RENAME COLUMN folder TO folder_identity;
ALTER TABLE session ADD COLUMN folder TEXT;
ALTER TABLE session ADD COLUMN folder_key TEXT;
CREATE INDEX session_folder ON session (folder_key, last_active_at, id) WHERE folder_key IS NOT NULL;
-- gateway.store.repositories.conversations.session_folders reads them from messages.
INSERT INTO meta (name, value) VALUES ('folders_from_messages', '');
