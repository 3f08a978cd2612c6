-- What a session has seen of files, as `agent.tools.file_views` writes it; NULL: nothing.
ALTER TABLE session ADD COLUMN file_views TEXT;
