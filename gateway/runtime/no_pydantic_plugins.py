"""Loader of pydantic's plug-ins that loads none; see `import_trimming`."""


def get_plugins() -> tuple[()]:
    return ()
