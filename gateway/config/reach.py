"""How settings name what commands may reach: folders of this machine, and other machines."""

from typing import Annotated

from pydantic import AfterValidator


def _folder(text: str) -> str:
    if not text.startswith(("/", "~/")) or text.rstrip("/") in ("", "~"):
        raise ValueError("a folder by its full path, such as /srv/tools or ~/.pyenv")
    return text


def _host(text: str) -> str:
    # Only here: the settings are read in every process, and few name hosts.
    from agent.security.network.hosts import host_name

    try:
        return host_name(text)
    except ValueError as exc:
        raise ValueError("a name such as example.org, or *.example.org for all below it") from exc


Folder = Annotated[str, AfterValidator(_folder)]
HostName = Annotated[str, AfterValidator(_host)]
