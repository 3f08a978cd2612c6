-- The identity of the folder that a session's last turn worked in, as `gateway.sessions.working_folder`
-- writes it; NULL: none yet, or the workspace. It tells nothing of the folder's name.
ALTER TABLE session ADD COLUMN folder ordered_text;
