-- The memory that a session began with, as JSON: the file's name and its text. NULL: none is stored,
-- or a summary has taken the place of older messages since. Sealed.
ALTER TABLE session ADD COLUMN memory TEXT;
