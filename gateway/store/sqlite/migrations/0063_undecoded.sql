-- Updates that could not be decoded: kept as they came, counted, and decoded again by `kore replay`.
ALTER TABLE inbox ADD COLUMN undecoded INTEGER NOT NULL DEFAULT 0;
CREATE INDEX inbox_undecoded ON inbox (seq) WHERE undecoded = 1;
