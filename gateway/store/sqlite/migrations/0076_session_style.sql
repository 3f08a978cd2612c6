-- The output style that people chose for a session; NULL: none.
ALTER TABLE session ADD COLUMN style TEXT;
