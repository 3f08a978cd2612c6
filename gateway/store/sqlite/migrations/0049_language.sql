-- Which language somebody is spoken to in: `heard` is what their app says, `chosen` what they chose.
CREATE TABLE language (
    principal TEXT PRIMARY KEY,
    heard     TEXT,
    chosen    TEXT
) STRICT, WITHOUT ROWID;
