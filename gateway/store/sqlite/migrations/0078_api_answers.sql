-- Answers that programs were given over the OpenAI-compatible API: a repeated `Idempotency-Key` finds
-- its answer here, `previous_response_id` its conversation. A row with a key begins with its request;
-- `is_given`: an answer was given in full, so that there is no other. `request`, `answer` and
-- `conversation` are sealed, `size` is their length in characters.
CREATE TABLE api_answer (
    token        TEXT NOT NULL,
    id           TEXT NOT NULL,
    principal    TEXT NOT NULL,
    request_key  TEXT,
    made_at      REAL NOT NULL,
    is_given     INTEGER NOT NULL,
    size         INTEGER NOT NULL,
    request      TEXT,
    answer       TEXT,
    conversation TEXT,
    PRIMARY KEY (token, id)
) STRICT;
CREATE UNIQUE INDEX api_answer_key ON api_answer (token, request_key) WHERE request_key IS NOT NULL;
CREATE INDEX api_answer_age ON api_answer (token, made_at, id, size);
CREATE INDEX api_answer_made ON api_answer (made_at);
