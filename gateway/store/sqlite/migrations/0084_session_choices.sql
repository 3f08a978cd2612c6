-- Choices of people are rows; a new choice is no new column.
CREATE TABLE session_choice (
    session TEXT NOT NULL REFERENCES session (id),
    name    TEXT NOT NULL,                        -- model, agent, style, queue, trace ...
    value   TEXT NOT NULL,
    PRIMARY KEY (session, name)
) STRICT, WITHOUT ROWID;
INSERT INTO session_choice (session, name, value)
    SELECT id, 'agent', agent FROM session WHERE agent <> 'default'
    UNION ALL SELECT id, 'model', model FROM session WHERE model IS NOT NULL
    UNION ALL SELECT id, 'style', style FROM session WHERE style IS NOT NULL
    UNION ALL SELECT id, 'queue', queue_mode FROM session WHERE queue_mode IS NOT NULL
    UNION ALL SELECT id, 'trace', trace FROM session WHERE trace IS NOT NULL
    UNION ALL SELECT id, 'thinking', CASE thinking_wanted WHEN 0 THEN 'off' ELSE 'on' END
        FROM session WHERE thinking_wanted IS NOT NULL
    UNION ALL SELECT id, 'thinking_display', 'hidden' FROM session WHERE thinking_shown = 0;
ALTER TABLE session DROP COLUMN agent;
ALTER TABLE session DROP COLUMN model;
ALTER TABLE session DROP COLUMN style;
ALTER TABLE session DROP COLUMN queue_mode;
ALTER TABLE session DROP COLUMN thinking_wanted;
ALTER TABLE session DROP COLUMN thinking_shown;
ALTER TABLE session DROP COLUMN trace;
