-- What is asked for with every message is found without going through what has been: a house test
-- (tests/house/test_statements.py) refuses a statement that scans a table that grows.

-- Few are open, streaming or at work at a time: these indexes hold those alone.
DROP INDEX approval_open;
CREATE INDEX approval_open ON approval (id) WHERE state = 'open';
DROP INDEX task_running;
CREATE INDEX task_running ON task (id) WHERE state = 'running';
CREATE INDEX outbox_streaming ON outbox (lane) WHERE state = 'streaming';
CREATE INDEX inbox_early ON inbox (ready_at) WHERE album IS NOT NULL
    AND dead_reason = 'early part of an album';

CREATE INDEX usage_errand ON usage (by_turn) WHERE by_turn <> turn_id;

CREATE INDEX inbox_principal ON inbox (principal, seq);
CREATE INDEX session_principal ON session (principal, last_active_at, id);
CREATE INDEX task_root_lane ON task (root_lane, id);
CREATE INDEX undoing_age ON undoing (made_at);
CREATE INDEX binding_session ON binding (session);

-- A row that others refer to is looked for in all of them when it goes.
CREATE INDEX session_parent ON session (parent) WHERE parent IS NOT NULL;
CREATE INDEX turn_session ON turn (session) WHERE session IS NOT NULL;
CREATE INDEX approval_session ON approval (session);
CREATE INDEX task_caller ON task (caller);
CREATE INDEX task_root_session ON task (root_session);
CREATE INDEX task_root_turn ON task (root_turn);
