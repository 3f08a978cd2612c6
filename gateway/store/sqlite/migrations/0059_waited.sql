-- How long a part has been made to wait between its tries, in all: no jump of the clock changes it.
ALTER TABLE outbox ADD COLUMN waited_s REAL NOT NULL DEFAULT 0;
