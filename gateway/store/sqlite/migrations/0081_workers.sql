-- For a Kore of several processes, which needs PostgreSQL: here these columns and this table stay
-- empty, and the statements are the same. `worker` names the process that has claimed a turn, or has
-- commands of a conversation in the background; `entry` is an audit entry that it has left.
ALTER TABLE turn ADD COLUMN worker INTEGER;
ALTER TABLE session ADD COLUMN worker INTEGER;
CREATE INDEX session_worker ON session (worker) WHERE worker IS NOT NULL;
ALTER TABLE audit_outbox ADD COLUMN entry TEXT;
CREATE TABLE usage_reservation (
    by_turn INTEGER PRIMARY KEY,
    turn_id INTEGER NOT NULL,
    session TEXT NOT NULL,
    chat    TEXT NOT NULL,
    nano    INTEGER NOT NULL
) STRICT;
-- Few conversations are paused; what waits in them is nobody's to take.
CREATE INDEX session_paused ON session (id) WHERE status = 'paused';
