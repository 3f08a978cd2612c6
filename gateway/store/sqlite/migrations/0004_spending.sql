-- What model calls used and cost: a row as soon as each reply is there. `cost_nusd` is in
-- nano-dollars (1e-9), NULL when nobody knows the price; `estimated`: the vendor did not count.
-- `chat` is the lane without its topic; the terminal is one chat.
CREATE TABLE usage (
    turn_id   INTEGER NOT NULL REFERENCES turn (id),
    n         INTEGER NOT NULL,
    session   TEXT NOT NULL,
    lane      TEXT NOT NULL,
    chat      TEXT NOT NULL,
    principal TEXT NOT NULL,
    model     TEXT NOT NULL,
    input     INTEGER NOT NULL,
    output    INTEGER NOT NULL,
    cached    INTEGER NOT NULL,
    cost_nusd INTEGER,
    estimated INTEGER NOT NULL DEFAULT 0,
    at        REAL NOT NULL,
    PRIMARY KEY (turn_id, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_session ON usage (session, input, output, cached, cost_nusd);
CREATE INDEX usage_at ON usage (at, chat, input, output, cached, cost_nusd);

-- Who was told of a limit already: once for each limit, scope (a turn, a session, a chat) and period.
CREATE TABLE limit_notice (
    cap    TEXT NOT NULL,
    scope  TEXT NOT NULL,
    period TEXT NOT NULL,
    kind   TEXT NOT NULL CHECK (kind IN ('warning', 'reached')),
    at     REAL NOT NULL,
    PRIMARY KEY (cap, scope, period, kind)
) STRICT, WITHOUT ROWID;
