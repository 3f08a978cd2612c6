"""Loader of pydantic's plug-ins that knows none; see `import_trimming`."""


def get_plugins() -> tuple[()]:
    return ()
