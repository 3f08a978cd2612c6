-- Lines of an imported session as they were read. One with `covers` stands for so many messages
-- from `n` on, which were made of it; the others are what Kore does not understand, kept behind
-- message `n` in the order of `i`. The line of facts is at n = -1.
CREATE TABLE kept_line (
    session TEXT NOT NULL REFERENCES session (id),
    n       INTEGER NOT NULL,
    i       INTEGER NOT NULL,
    covers  INTEGER NOT NULL,
    line    TEXT NOT NULL,
    PRIMARY KEY (session, n, i)
) STRICT, WITHOUT ROWID;
