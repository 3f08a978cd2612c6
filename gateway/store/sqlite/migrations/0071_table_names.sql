-- Tables and columns by the words of docs/glossary.md. Sealed texts keep the places that they were
-- sealed for (gateway/store/cipher.py).
ALTER TABLE standing RENAME TO permission_grant;
ALTER TABLE overheard RENAME TO group_context;
ALTER TABLE whereabouts RENAME TO chat_membership;
ALTER TABLE findable RENAME TO search_entry;
ALTER TABLE kept_line RENAME TO transcript_line;
ALTER TABLE guess RENAME TO pairing_attempt;
ALTER TABLE undoing RENAME TO undo_operation;
ALTER TABLE note RENAME TO audit_outbox;
ALTER TABLE move RENAME TO chat_alias;
ALTER TABLE slot RENAME TO job_run;
ALTER TABLE change RENAME TO file_change;

ALTER TABLE chat_alias RENAME COLUMN first TO stored_id;
ALTER TABLE chat_alias RENAME COLUMN now TO current_id;
ALTER TABLE file_change RENAME COLUMN standing TO state;
ALTER TABLE inbox RENAME COLUMN held TO incomplete;
ALTER TABLE job RENAME COLUMN held TO postponed;
ALTER TABLE summary RENAME COLUMN told TO announced;

DROP INDEX inbox_held;
DROP INDEX overheard_lane;
DROP INDEX undoing_age;
DROP INDEX change_session;
DROP INDEX change_age;
DROP INDEX usage_errand;
CREATE INDEX inbox_incomplete ON inbox (seq)
    WHERE incomplete AND turn_id IS NULL AND dead_reason IS NULL;
CREATE INDEX group_context_lane ON group_context (lane, n);
CREATE INDEX undo_operation_age ON undo_operation (made_at);
CREATE INDEX file_change_session ON file_change (session, step);
CREATE INDEX file_change_age ON file_change (made_at);
CREATE INDEX usage_subagent ON usage (by_turn) WHERE by_turn <> turn_id;
