-- On and off became levels.
UPDATE session_choice
    SET name = 'effort', value = CASE value WHEN 'on' THEN 'high' ELSE 'none' END
    WHERE name = 'thinking';
