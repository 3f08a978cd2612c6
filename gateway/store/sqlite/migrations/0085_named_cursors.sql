-- A channel may store several positions, and positions that are not numbers.
CREATE TABLE cursor_before AS SELECT channel, account, next_offset, seen_at FROM cursor;
DROP TABLE cursor;
CREATE TABLE cursor (
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    name    TEXT NOT NULL,
    value   TEXT NOT NULL,
    seen_at REAL NOT NULL,
    PRIMARY KEY (channel, account, name)
) STRICT;
INSERT INTO cursor (channel, account, name, value, seen_at)
    SELECT channel, account, 'offset', CAST(next_offset AS TEXT), seen_at FROM cursor_before;
DROP TABLE cursor_before;
