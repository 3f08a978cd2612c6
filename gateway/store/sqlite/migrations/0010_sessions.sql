-- Where a session was begun: a chat may go on with its own ones only. '' for an imported one.
ALTER TABLE session ADD COLUMN home TEXT NOT NULL DEFAULT '';
UPDATE session SET home = first.lane FROM
    (SELECT session, lane, min(id) FROM turn WHERE session IS NOT NULL GROUP BY session) AS first
    WHERE first.session = session.id;

-- Which messages can be found by their words; `id` is the row of `words`. Without a row in `meta`
-- named 'search', older messages are still to be entered (gateway/store/search.py does that).
CREATE TABLE findable (
    id      INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    n       INTEGER NOT NULL,
    UNIQUE (session, n)
) STRICT;

-- The words alone: the texts stay in `message`. Letters of scripts without spaces are entered one
-- by one, and found as phrases. Empty in a database whose texts are sealed.
CREATE VIRTUAL TABLE words USING fts5(
    text, content='', columnsize=0, tokenize="unicode61 remove_diacritics 2"
);
