-- What a session has taken in, as agent/types.py names it, separated by commas; it only grows.
ALTER TABLE session ADD COLUMN taint TEXT NOT NULL DEFAULT '';
