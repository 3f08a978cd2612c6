-- Tables of a new database. A change here needs a migration for databases that exist already
-- (docs/development.md). gateway/store/postgres/schema.sql has the same tables for PostgreSQL.
--
-- Times are Unix seconds, flags are 0 or 1, and a lane is "channel:account:chat[:topic]". Columns
-- that gateway/store/cipher.py lists as SEALED are encrypted when the database has a key; JSON in
-- `content`, `args` and `result` is written by agent/serialization.py.

-- The database itself -------------------------------------------------------------------------

-- Numbers of the schema and of the migrations that this database contains.
CREATE TABLE migration (
    number     INTEGER PRIMARY KEY,
    applied_at REAL NOT NULL
) STRICT;

-- Facts by name. `cipher`: a known text, sealed with the key of all other sealed texts; no row, no
-- encryption. `search`: key of the last message in the search index, as JSON; null: all are in it.
-- `folders_from_messages`: folders of earlier sessions are still to be read from their messages.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Sessions ------------------------------------------------------------------------------------

CREATE TABLE session (
    id              TEXT PRIMARY KEY,             -- its first second: "20250218_001946"
    name            TEXT NOT NULL DEFAULT '',     -- sealed; empty: named by its first message
    status          TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'paused', 'closed')),
    principal       TEXT NOT NULL,                -- the person it belongs to
    home_lane       TEXT NOT NULL DEFAULT '',     -- where it began; empty: imported
    start_command   INTEGER,                      -- inbox.seq of the command that began it
    parent          TEXT REFERENCES session (id), -- the session it was forked from
    parent_n        INTEGER,                      -- message.n of the last message copied at the fork
    created_at      REAL NOT NULL,
    last_active_at  REAL NOT NULL,

    permission_mode TEXT,                         -- plan, ask, accept-edits or auto; NULL: none chosen
    choice_bits     REAL NOT NULL DEFAULT 0,      -- information that choices have given to strangers
                                                  -- since the last message of a person, in bits

    -- The window: messages that the model still sees.
    head            INTEGER NOT NULL DEFAULT 0,   -- last message.n before the window
    pruned_upto     INTEGER NOT NULL DEFAULT 0,   -- last message.n with long results shortened to a line
    memory          TEXT,                         -- sealed JSON: name and text of the memory file that
                                                  -- the window begins with
    taint           TEXT NOT NULL DEFAULT '',     -- names of agent.types.Taint with commas; only grows
    file_views      TEXT,                         -- sealed JSON of agent.tools.file_views

    -- The place of its work.
    folder          TEXT,                         -- sealed JSON of gateway.core.session_folder; NULL:
                                                  -- none named by a terminal, an editor or a page
    folder_key      TEXT,                         -- hash of its workspace, to look sessions up by
    folder_identity TEXT,                         -- identity of the folder of its last turn
                                                  -- (gateway.sessions.working_folder); NULL: workspace
    worker          INTEGER                       -- worker with background commands of this session
) STRICT;
CREATE INDEX session_recent ON session (last_active_at);
CREATE INDEX session_principal ON session (principal, last_active_at, id);
CREATE INDEX session_folder ON session (folder_key, last_active_at, id) WHERE folder_key IS NOT NULL;
CREATE INDEX session_parent ON session (parent) WHERE parent IS NOT NULL;
CREATE INDEX session_paused ON session (id) WHERE status = 'paused';
CREATE INDEX session_worker ON session (worker) WHERE worker IS NOT NULL;

-- Choices of people (gateway.store.repositories.conversations.choices).
CREATE TABLE session_choice (
    session TEXT NOT NULL REFERENCES session (id),
    name    TEXT NOT NULL,                        -- model, agent, style, queue, trace ...
    value   TEXT NOT NULL,
    PRIMARY KEY (session, name)
) STRICT, WITHOUT ROWID;

-- Goals of sessions (gateway.turns.goals). An active goal has a message waiting (`next_event`), or a
-- turn of its session runs, or a message waits that begins one.
CREATE TABLE goal (
    session     TEXT PRIMARY KEY REFERENCES session (id),
    principal   TEXT NOT NULL,                    -- the person who set it
    template    TEXT NOT NULL,                    -- sealed JSON: InboundMessage with the goal as its text
    state       TEXT NOT NULL CHECK (state IN ('active', 'paused', 'met')),
    reason      TEXT NOT NULL DEFAULT '',         -- of a pause (gateway.core.records.PauseReason)
    remark      TEXT NOT NULL,                    -- sealed: what is missing, the evidence or an error
    next_event  TEXT,                             -- inbox.event_id of the check or the turn to come
    turns       INTEGER NOT NULL DEFAULT 0,       -- turns, time and cost since it was set or resumed
    max_turns   INTEGER NOT NULL,
    worked_s    REAL NOT NULL DEFAULT 0,
    max_s       REAL NOT NULL,
    before_nusd INTEGER NOT NULL,                 -- cost of the session before, in nano-dollars
    max_nusd    INTEGER,                          -- NULL: no limit
    created_at  REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX goal_active ON goal (session) WHERE state = 'active';

-- The current session of a lane.
CREATE TABLE binding (
    lane    TEXT PRIMARY KEY,
    session TEXT NOT NULL REFERENCES session (id)
) STRICT;
CREATE INDEX binding_session ON binding (session);

-- Turns ---------------------------------------------------------------------------------------

CREATE TABLE turn (
    id             INTEGER PRIMARY KEY,
    session        TEXT REFERENCES session (id),  -- NULL: a chat command
    lane           TEXT NOT NULL,
    state          TEXT NOT NULL CHECK (state IN ('running', 'waiting', 'done', 'dead')),
    stop_requested INTEGER NOT NULL DEFAULT 0,
    is_claimed     INTEGER NOT NULL DEFAULT 0,    -- a process works on it
    worker         INTEGER,                       -- the worker that claimed it; NULL: the owner of the data
    is_suspended   INTEGER NOT NULL DEFAULT 0,    -- put down by a clean stop
    progress       INTEGER NOT NULL DEFAULT 0,    -- steps at the time of its last start
    attempts       INTEGER NOT NULL DEFAULT 1,    -- 1 + crashes without a new step, this turn alone
    interruptions  INTEGER NOT NULL DEFAULT 0,    -- crashes without a new step, among other turns
    created_at     REAL NOT NULL,
    ended_at       REAL
) STRICT;
CREATE UNIQUE INDEX turn_live_lane ON turn (lane) WHERE state IN ('running', 'waiting');
CREATE UNIQUE INDEX turn_live_session ON turn (session) WHERE state IN ('running', 'waiting');
CREATE INDEX turn_session ON turn (session) WHERE session IS NOT NULL;

-- Tool calls of a turn. After a crash `effect` decides what happens to a call that had started.
CREATE TABLE step (
    turn_id  INTEGER NOT NULL REFERENCES turn (id),
    n        INTEGER NOT NULL,
    reply    INTEGER NOT NULL,  -- message.n of the reply with this call
    call_id  TEXT NOT NULL,
    tool     TEXT NOT NULL,
    effect   TEXT NOT NULL CHECK (effect IN ('read', 'idempotent', 'unsafe')),
    idem_key TEXT NOT NULL UNIQUE,
    args     TEXT NOT NULL,
    state    TEXT NOT NULL CHECK (state IN ('planned', 'started', 'done', 'unknown')),
    result   TEXT,
    taint    TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (turn_id, n)
) STRICT, WITHOUT ROWID;

-- Tasks of sub-agents. A row is stored in one transaction with the inbox row that starts the task,
-- and ends in one transaction with the sub-agent's last message and the report to its caller.
CREATE TABLE task (
    id            INTEGER PRIMARY KEY,                    -- shown to people
    turn_id       INTEGER NOT NULL REFERENCES turn (id),  -- the turn that delegates
    step          INTEGER NOT NULL,                       -- step.n of its call
    caller        TEXT NOT NULL REFERENCES session (id),
    caller_lane   TEXT NOT NULL,
    root_turn     INTEGER NOT NULL REFERENCES turn (id),  -- the turn that answers a person
    root_session  TEXT NOT NULL REFERENCES session (id),
    root_lane     TEXT NOT NULL,
    depth         INTEGER NOT NULL,
    session       TEXT NOT NULL REFERENCES session (id),  -- of the sub-agent
    lane          TEXT NOT NULL,
    agent         TEXT NOT NULL,
    definition    TEXT NOT NULL,                          -- of the agent when the task began
    title         TEXT NOT NULL,
    model         TEXT,
    is_background INTEGER NOT NULL,                       -- no turn waits for it
    state         TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed', 'stopped')),
    result        TEXT,
    taint         TEXT NOT NULL DEFAULT '',
    asked_at      REAL NOT NULL,
    ended_at      REAL,
    UNIQUE (turn_id, step)
) STRICT;
CREATE INDEX task_session ON task (session);
CREATE INDEX task_caller ON task (caller);
CREATE INDEX task_root_turn ON task (root_turn);
CREATE INDEX task_root_session ON task (root_session);
CREATE INDEX task_root_lane ON task (root_lane, id);
CREATE INDEX task_running ON task (id) WHERE state = 'running';

-- Messages ------------------------------------------------------------------------------------

-- History of a session, append-only; `n` counts from 1.
CREATE TABLE message (
    session    TEXT NOT NULL REFERENCES session (id),
    n          INTEGER NOT NULL,
    turn_id    INTEGER REFERENCES turn (id),
    role       TEXT NOT NULL,
    content    TEXT NOT NULL,
    created_at REAL NOT NULL,
    PRIMARY KEY (session, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX message_turn ON message (turn_id) WHERE turn_id IS NOT NULL;

-- Summaries of messages that have left the window: all up to message `upto`, except `request`, a
-- message of the user that stays in front of the window. The newest summary counts.
CREATE TABLE summary (
    session      TEXT NOT NULL REFERENCES session (id),
    upto         INTEGER NOT NULL,
    request      INTEGER,
    content      TEXT NOT NULL,
    taint        TEXT NOT NULL DEFAULT '',
    is_announced INTEGER NOT NULL DEFAULT 0,  -- the chat knows of it
    created_at   REAL NOT NULL,
    PRIMARY KEY (session, upto)
) STRICT, WITHOUT ROWID;

-- Lines of an imported transcript, for an export that loses nothing. A line with a `message_count`
-- became that many messages from `n` on; a line with 0 is unknown to Kore and follows message `n`
-- in the order of `i`. The header of the file has n = -1.
CREATE TABLE transcript_line (
    session       TEXT NOT NULL REFERENCES session (id),
    n             INTEGER NOT NULL,
    i             INTEGER NOT NULL,
    message_count INTEGER NOT NULL,
    line          TEXT NOT NULL,
    PRIMARY KEY (session, n, i)
) STRICT, WITHOUT ROWID;

-- Messages in the search index; `id` is the row of `words`.
CREATE TABLE search_entry (
    id      INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    n       INTEGER NOT NULL,
    UNIQUE (session, n)
) STRICT;

-- The index holds words only; texts stay in `message`. Letters of scripts without spaces are separate
-- words and found as phrases. Empty in an encrypted database.
CREATE VIRTUAL TABLE words USING fts5(
    text, content='', columnsize=0, tokenize="unicode61 remove_diacritics 2"
);

-- Vectors of texts, by the SHA-256 of model and text. A cache; empty in an encrypted database.
CREATE TABLE embedding (
    digest  BLOB NOT NULL PRIMARY KEY,
    vector  BLOB NOT NULL,
    used_at REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX embedding_by_use ON embedding (used_at);

-- Receiving -----------------------------------------------------------------------------------

-- Positions in the updates of a platform, by names that the channel chooses.
CREATE TABLE cursor (
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    name    TEXT NOT NULL,
    value   TEXT NOT NULL,
    seen_at REAL NOT NULL,
    PRIMARY KEY (channel, account, name)
) STRICT;

-- One row for each event of a platform, including those without any effect (`dead_reason`).
CREATE TABLE inbox (
    seq               INTEGER PRIMARY KEY,
    channel           TEXT NOT NULL,
    account           TEXT NOT NULL,
    event_id          TEXT NOT NULL,
    source_message_id TEXT,                        -- the platform's id
    lane              TEXT NOT NULL,
    principal         TEXT NOT NULL,
    payload           TEXT NOT NULL,               -- InboundMessage as JSON; an undecoded update as it came
    received_at       REAL NOT NULL,
    turn_id           INTEGER REFERENCES turn (id),
    dead_reason       TEXT,
    is_undecoded      INTEGER NOT NULL DEFAULT 0,  -- `kore replay` decodes it again
    is_incomplete     INTEGER NOT NULL DEFAULT 0,  -- files are loading or an album may grow; the lane waits
    album             TEXT,                        -- "chat:album", for further parts
    ready_at          REAL NOT NULL DEFAULT 0,     -- when the album has been quiet for long enough
    UNIQUE (channel, account, event_id)
) STRICT;
CREATE INDEX inbox_waiting ON inbox (lane, seq) WHERE turn_id IS NULL AND dead_reason IS NULL;
CREATE INDEX inbox_source ON inbox (channel, account, source_message_id);
CREATE INDEX inbox_turn ON inbox (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX inbox_principal ON inbox (principal, seq);
CREATE INDEX inbox_album ON inbox (channel, account, album) WHERE album IS NOT NULL;
CREATE INDEX inbox_early ON inbox (ready_at)
    WHERE album IS NOT NULL AND dead_reason = 'early part of an album';
CREATE INDEX inbox_incomplete ON inbox (seq)
    WHERE is_incomplete = 1 AND turn_id IS NULL AND dead_reason IS NULL;
CREATE INDEX inbox_undecoded ON inbox (seq) WHERE is_undecoded = 1;
CREATE INDEX inbox_denied ON inbox (seq) WHERE dead_reason = 'not on the allow-list';

-- Messages in a group that were not for Kore, since its last answer there. The next message for
-- Kore takes them along as words of strangers, and they are deleted.
CREATE TABLE group_context (
    n          INTEGER PRIMARY KEY,
    channel    TEXT NOT NULL,
    account    TEXT NOT NULL,
    event_id   TEXT NOT NULL,
    lane       TEXT NOT NULL,
    message_id TEXT,
    text       TEXT NOT NULL,
    UNIQUE (channel, account, event_id)
) STRICT;
CREATE INDEX group_context_lane ON group_context (lane, n);

-- Chats with a new id at their platform, such as a group that became a supergroup. All other tables
-- use `stored_id`; the platform uses `current_id`.
CREATE TABLE chat_alias (
    channel    TEXT NOT NULL,
    stored_id  TEXT NOT NULL,
    current_id TEXT NOT NULL,
    PRIMARY KEY (channel, stored_id)
) STRICT, WITHOUT ROWID;

-- Chats that a bot was added to, removed from or blocked by.
CREATE TABLE chat_membership (
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    chat    TEXT NOT NULL,
    state   TEXT NOT NULL CHECK (state IN ('in', 'muted', 'out')),
    reason  TEXT NOT NULL,
    at      REAL NOT NULL,
    PRIMARY KEY (channel, account, chat)
) STRICT, WITHOUT ROWID;

-- Approvals -----------------------------------------------------------------------------------

-- Questions to a person. A turn with an open question is `waiting`: no process works on it.
CREATE TABLE approval (
    id          INTEGER PRIMARY KEY,  -- shown to people
    nonce       TEXT NOT NULL UNIQUE,
    turn_id     INTEGER NOT NULL REFERENCES turn (id),
    step        INTEGER NOT NULL,     -- step.n of the call
    args_hash   TEXT NOT NULL,        -- of everything that the person sees
    grant_hash  TEXT NOT NULL,        -- of everything that a lasting answer allows
    lane        TEXT NOT NULL,        -- where the turn runs
    session     TEXT NOT NULL REFERENCES session (id),
    asker       TEXT NOT NULL,        -- the principal of the turn
    principal   TEXT NOT NULL,        -- who may answer
    channel     TEXT NOT NULL,        -- where the question is shown
    account     TEXT NOT NULL,
    chat        TEXT NOT NULL,
    thread      TEXT,
    question    TEXT NOT NULL,
    asked_at    REAL NOT NULL,
    expires_at  REAL NOT NULL,
    state       TEXT NOT NULL CHECK (state IN
                ('open', 'once', 'session', 'always', 'deny', 'expired', 'withdrawn')),
    answered_by TEXT,
    answered_at REAL
) STRICT;
CREATE INDEX approval_step ON approval (turn_id, step);
CREATE INDEX approval_session ON approval (session);
CREATE INDEX approval_open ON approval (id) WHERE state = 'open';

-- Lasting answers: exact arguments in one folder, a command's prefix or a host.
CREATE TABLE permission_grant (
    id         INTEGER PRIMARY KEY,  -- shown to people
    principal  TEXT NOT NULL,
    session    TEXT NOT NULL,        -- empty: all sessions
    grant_hash TEXT NOT NULL,
    title      TEXT NOT NULL,
    folder     TEXT NOT NULL,
    granted_by TEXT NOT NULL,
    granted_at REAL NOT NULL,
    UNIQUE (principal, session, grant_hash)
) STRICT;

-- People --------------------------------------------------------------------------------------

CREATE TABLE member (
    channel     TEXT NOT NULL,
    account     TEXT NOT NULL,
    sender      TEXT NOT NULL,  -- the platform's numeric id
    name        TEXT NOT NULL,  -- for display only
    is_owner    INTEGER NOT NULL DEFAULT 0,
    approved_by TEXT NOT NULL,
    approved_at REAL NOT NULL,
    PRIMARY KEY (channel, account, sender)
) STRICT, WITHOUT ROWID;

-- Requests to be let in, one for each person: nobody gets a second code before the first expires.
CREATE TABLE pairing (
    channel    TEXT NOT NULL,
    account    TEXT NOT NULL,
    sender     TEXT NOT NULL,
    chat       TEXT NOT NULL,
    name       TEXT NOT NULL,
    code_hash  BLOB,            -- NULL: rejected; the person gets no answer until the row expires
    asked_at   REAL NOT NULL,
    expires_at REAL NOT NULL,
    PRIMARY KEY (channel, account, sender)
) STRICT, WITHOUT ROWID;

-- Wrong codes in a row.
CREATE TABLE pairing_attempt (
    principal    TEXT PRIMARY KEY,
    failures     INTEGER NOT NULL,
    locked_until REAL NOT NULL
) STRICT;

CREATE TABLE language (
    principal       TEXT PRIMARY KEY,
    client_language TEXT,  -- reported by the person's app
    chosen_language TEXT   -- chosen by the person
) STRICT, WITHOUT ROWID;

-- Sending -------------------------------------------------------------------------------------

-- Parts of replies, in order. A console says by `seq` what it has shown, so that no number is used
-- twice.
CREATE TABLE outbox (
    seq                 INTEGER PRIMARY KEY AUTOINCREMENT,
    delivery_id         TEXT NOT NULL,
    part                INTEGER NOT NULL,
    is_last             INTEGER NOT NULL DEFAULT 1,
    turn_id             INTEGER REFERENCES turn (id),
    lane                TEXT NOT NULL,
    channel             TEXT NOT NULL,
    account             TEXT NOT NULL,
    chat                TEXT NOT NULL,
    thread              TEXT,
    reply_to            TEXT,
    event_id            TEXT,
    kind                TEXT NOT NULL CHECK (kind IN ('final', 'notice', 'approval')),
    outcome             TEXT,                        -- of a command, or of the chat's goal
    body                TEXT NOT NULL,
    entities            TEXT NOT NULL DEFAULT '[]',  -- JSON: formatting of the body
    files               TEXT NOT NULL DEFAULT '[]',  -- JSON: path of a copy or text, name and kind
    buttons             TEXT NOT NULL DEFAULT '[]',  -- JSON: shown below the message
    edits               TEXT,                        -- delivery_id whose first part it replaces
    state               TEXT NOT NULL CHECK (state IN ('streaming', 'pending', 'inflight', 'sent', 'dead')),
    provider_message_id TEXT,                        -- the platform's id
    attempts            INTEGER NOT NULL DEFAULT 0,
    ambiguous_attempts  INTEGER NOT NULL DEFAULT 0,  -- attempts with an unknown outcome
    next_at             REAL NOT NULL DEFAULT 0,     -- time of the next attempt
    waited_s            REAL NOT NULL DEFAULT 0,     -- total delay between attempts, whatever the clock says
    maybe_duplicate     INTEGER NOT NULL DEFAULT 0,
    preview_lost        INTEGER NOT NULL DEFAULT 0,  -- an earlier version may be in the chat under an
                                                     -- unknown id
    is_shown            INTEGER NOT NULL DEFAULT 0,  -- its preview shows it already; no edit follows
    dead_reason         TEXT,
    created_at          REAL NOT NULL,
    UNIQUE (delivery_id, part)
) STRICT;
CREATE INDEX outbox_waiting ON outbox (lane, seq) WHERE state IN ('pending', 'inflight');
CREATE INDEX outbox_streaming ON outbox (lane) WHERE state = 'streaming';
CREATE INDEX outbox_turn ON outbox (turn_id);
CREATE INDEX outbox_sent ON outbox (provider_message_id, lane);

-- Spending ------------------------------------------------------------------------------------

-- Model calls, stored when the reply arrives. A chat is a lane without its topic; the terminal is
-- one chat.
CREATE TABLE usage (
    turn_id      INTEGER NOT NULL REFERENCES turn (id),  -- the turn that answers a person
    n            INTEGER NOT NULL,
    by_turn      INTEGER,                                -- the turn that made the call
    session      TEXT NOT NULL,
    lane         TEXT NOT NULL,
    chat         TEXT NOT NULL,
    principal    TEXT NOT NULL,
    model        TEXT NOT NULL,
    input        INTEGER NOT NULL,                       -- tokens
    output       INTEGER NOT NULL,                       -- tokens
    cached       INTEGER NOT NULL,                       -- tokens of `input` from the vendor's cache
    cost_nusd    INTEGER,                                -- nano-dollars; NULL: price unknown
    is_estimated INTEGER NOT NULL DEFAULT 0,             -- the vendor did not count the tokens
    at           REAL NOT NULL,
    PRIMARY KEY (turn_id, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_session ON usage (session, input, output, cached, cost_nusd);
CREATE INDEX usage_at ON usage (at, chat, input, output, cached, cost_nusd);
CREATE INDEX usage_subagent ON usage (by_turn) WHERE by_turn <> turn_id;

-- Minimum cost of a model call in progress, for the limits of turn, session and chat. Used where
-- several processes run turns.
CREATE TABLE usage_reservation (
    by_turn   INTEGER PRIMARY KEY,
    turn_id   INTEGER NOT NULL,
    session   TEXT NOT NULL,
    chat      TEXT NOT NULL,
    cost_nusd INTEGER NOT NULL    -- nano-dollars
) STRICT;

-- Notices about limits, one for each limit, scope (a turn, session or chat), period and kind.
CREATE TABLE limit_notice (
    limit_key TEXT NOT NULL,
    scope     TEXT NOT NULL,
    period    TEXT NOT NULL,
    kind      TEXT NOT NULL CHECK (kind IN ('warning', 'reached')),
    at        REAL NOT NULL,
    PRIMARY KEY (limit_key, scope, period, kind)
) STRICT, WITHOUT ROWID;

-- Schedule ------------------------------------------------------------------------------------

CREATE TABLE job (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,  -- shown to people, never used twice
    made_by         TEXT NOT NULL UNIQUE,               -- the call or message that made it
    kind            TEXT NOT NULL CHECK (kind IN ('reminder', 'prompt', 'heartbeat')),
    template        TEXT NOT NULL,                      -- InboundMessage as JSON
    principal       TEXT NOT NULL,
    channel         TEXT NOT NULL,
    account         TEXT NOT NULL,
    chat            TEXT NOT NULL,
    rule            TEXT NOT NULL,                      -- "at 1795338000", "every 7200" (seconds),
                                                        -- "cron 0 9 * * 1-5"
    zone            TEXT NOT NULL,                      -- IANA time zone
    catch_up        TEXT NOT NULL CHECK (catch_up IN ('skip', 'once', 'all')),
    is_urgent       INTEGER NOT NULL DEFAULT 0,         -- runs in quiet hours
    has_own_session INTEGER NOT NULL DEFAULT 0,         -- a prompt gets a new session each time
    state           TEXT NOT NULL DEFAULT 'on' CHECK (state IN ('on', 'paused', 'done', 'failed')),
    reason          TEXT NOT NULL DEFAULT '',           -- for a state other than `on`
    failures        INTEGER NOT NULL DEFAULT 0,         -- in a row
    slot_at         INTEGER,                            -- the first time that has not been handled
    due_at          REAL,                               -- slot_at, or the end of quiet hours
    is_postponed    INTEGER NOT NULL DEFAULT 0,         -- by quiet hours
    created_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX job_due ON job (due_at) WHERE state = 'on';

-- Runs of a job. The outbox has their delivery and `turn` their work: "cron:JOB:AT" is the event,
-- and for a reminder the delivery.
CREATE TABLE job_run (
    job      INTEGER NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    at       INTEGER NOT NULL,
    fired_at REAL NOT NULL,
    state    TEXT NOT NULL CHECK (state IN ('begun', 'ran', 'failed', 'missed')),
    note     TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (job, at)
) STRICT, WITHOUT ROWID;

CREATE TABLE chat_clock (
    chat  TEXT PRIMARY KEY,  -- "channel:account:chat"
    zone  TEXT,              -- IANA time zone
    quiet TEXT               -- quiet hours: "22:00-07:00" or "off"
) STRICT;

-- Files ---------------------------------------------------------------------------------------

-- Changes of files by tools; a step is one tool call. `entry` is the path with the versions before
-- and after, whose contents are in the folder `undo`.
CREATE TABLE file_change (
    step      INTEGER NOT NULL,
    n         INTEGER NOT NULL,
    session   TEXT NOT NULL,
    turn_id   INTEGER NOT NULL,
    call_id   TEXT NOT NULL,
    tool      TEXT NOT NULL,
    is_shared INTEGER NOT NULL DEFAULT 0,
    state     TEXT NOT NULL CHECK (state IN ('done', 'undone', 'kept', 'gone')),
    entry     TEXT NOT NULL,
    made_at   REAL NOT NULL,
    PRIMARY KEY (step, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX file_change_session ON file_change (session, step);
CREATE INDEX file_change_age ON file_change (made_at);

-- Undo operations, by a name that makes a repetition after a crash harmless. `report` ends one.
CREATE TABLE undo_operation (
    name    TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    plan    TEXT NOT NULL,
    report  TEXT,
    made_at REAL NOT NULL
) STRICT;
CREATE INDEX undo_operation_age ON undo_operation (made_at);

-- Audit log and API ---------------------------------------------------------------------------

-- Entries for the audit log, stored in one transaction with what they report.
CREATE TABLE audit_outbox (
    id         INTEGER PRIMARY KEY,
    at         REAL NOT NULL,
    what       TEXT NOT NULL,
    reason     TEXT NOT NULL,
    is_allowed INTEGER NOT NULL,
    session    TEXT NOT NULL,
    params     TEXT NOT NULL,  -- a JSON object
    entry      TEXT            -- a whole entry as JSON, left by a worker
) STRICT;

-- Answers of the OpenAI-compatible API, for a repeated `Idempotency-Key` and `previous_response_id`.
CREATE TABLE api_answer (
    token        TEXT NOT NULL,
    id           TEXT NOT NULL,
    principal    TEXT NOT NULL,
    request_key  TEXT,
    made_at      REAL NOT NULL,
    is_complete  INTEGER NOT NULL,  -- the answer was sent in full; there will be no other
    size         INTEGER NOT NULL,  -- of request, answer and conversation, in characters
    request      TEXT,              -- stored first where there is a key
    answer       TEXT,
    conversation TEXT,
    PRIMARY KEY (token, id)
) STRICT;
CREATE UNIQUE INDEX api_answer_key ON api_answer (token, request_key) WHERE request_key IS NOT NULL;
CREATE INDEX api_answer_age ON api_answer (token, made_at, id, size);
CREATE INDEX api_answer_made ON api_answer (made_at);
