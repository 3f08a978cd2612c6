-- When the owner last said that it lives (Unix time of the server): one that has stopped is replaced.
ALTER TABLE owner ADD COLUMN seen_at double precision NOT NULL DEFAULT 0;
