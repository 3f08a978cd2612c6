-- Which turns a process is at work on, and how often one was cut off, without a new step, together
-- with others: only a turn that was alone when the process ended is charged an attempt.
ALTER TABLE turn ADD COLUMN at_work INTEGER NOT NULL DEFAULT 0;
ALTER TABLE turn ADD COLUMN cut_off INTEGER NOT NULL DEFAULT 0;
