-- Columns by nouns, flags as is_… or has_…, so that the schema can be read without the code.
-- Sealed columns keep their names (gateway/store/cipher.py).
ALTER TABLE language RENAME COLUMN heard TO client_language;
ALTER TABLE language RENAME COLUMN chosen TO chosen_language;
-- A process works on the turn; how often one ended that worked on several turns.
ALTER TABLE turn RENAME COLUMN at_work TO is_claimed;
ALTER TABLE turn RENAME COLUMN cut_off TO interruptions;
ALTER TABLE turn RENAME COLUMN suspended TO is_suspended;
ALTER TABLE inbox RENAME COLUMN incomplete TO is_incomplete;
ALTER TABLE inbox RENAME COLUMN undecoded TO is_undecoded;
ALTER TABLE inbox RENAME COLUMN source_msg TO source_message_id;
ALTER TABLE outbox RENAME COLUMN provider_msg TO provider_message_id;
ALTER TABLE outbox RENAME COLUMN maybe_dup TO maybe_duplicate;
ALTER TABLE outbox RENAME COLUMN last TO is_last;
ALTER TABLE outbox RENAME COLUMN shown TO is_shown;
ALTER TABLE outbox RENAME COLUMN ambiguous TO ambiguous_attempts;
ALTER TABLE job RENAME COLUMN own TO has_own_session;
ALTER TABLE job RENAME COLUMN urgent TO is_urgent;
ALTER TABLE job RENAME COLUMN postponed TO is_postponed;
ALTER TABLE session RENAME COLUMN home TO home_lane;
-- The row of the inbox that holds the command.
ALTER TABLE session RENAME COLUMN begun_by TO start_command;
-- The last message whose long results the model sees as a line.
ALTER TABLE session RENAME COLUMN pruned TO pruned_upto;
ALTER TABLE summary RENAME COLUMN announced TO is_announced;
ALTER TABLE transcript_line RENAME COLUMN covers TO message_count;
ALTER TABLE file_change RENAME COLUMN shared TO is_shared;
ALTER TABLE audit_outbox RENAME COLUMN allowed TO is_allowed;
ALTER TABLE member RENAME COLUMN owner TO is_owner;
ALTER TABLE pairing_attempt RENAME COLUMN wrong TO failures;
ALTER TABLE task RENAME COLUMN background TO is_background;
ALTER TABLE usage RENAME COLUMN estimated TO is_estimated;

-- A partial index is used only where its own condition stands.
DROP INDEX inbox_incomplete;
CREATE INDEX inbox_incomplete ON inbox (seq)
    WHERE is_incomplete = 1 AND turn_id IS NULL AND dead_reason IS NULL;
