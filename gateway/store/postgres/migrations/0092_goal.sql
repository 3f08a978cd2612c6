-- A session may have a goal.
CREATE TABLE goal (
    session     ordered_text PRIMARY KEY REFERENCES session (id) DEFERRABLE,
    principal   ordered_text NOT NULL,
    template    ordered_text NOT NULL,
    state       ordered_text NOT NULL CHECK (state IN ('active', 'paused', 'met')),
    reason      ordered_text NOT NULL DEFAULT '',
    remark      ordered_text NOT NULL,
    next_event  ordered_text,
    turns       bigint NOT NULL DEFAULT 0,
    max_turns   bigint NOT NULL,
    worked_s    double precision NOT NULL DEFAULT 0,
    max_s       double precision NOT NULL,
    before_nusd bigint NOT NULL,
    max_nusd    bigint,
    created_at  double precision NOT NULL
);
CREATE INDEX goal_active ON goal (session) WHERE state = 'active';
