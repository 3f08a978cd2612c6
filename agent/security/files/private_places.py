"""Files and folders in which programs keep keys, tokens and logins."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from agent.security.files.paths import blocked_entry, normalize_filename

# Names, or sequences of names, at any depth. `.git` and `.env` files often hold a login as well.
PRIVATE_PLACES = (
    *(".git", ".env", ".env.local", ".env.production", ".envrc"),
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".terraform.d", ".vault-token"),
    *(".netrc", ".git-credentials", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".password-store"),
    *(".mozilla", ".thunderbird"),
    *(
        f".config/{name}"
        for name in ("gcloud", "gh", "glab-cli", "op", "pip", "pypoetry", "rclone")
    ),
    *(f".config/{name}" for name in ("google-chrome", "chromium", "BraveSoftware", "git", "pnpm")),
    *(".local/share/keyrings", ".local/share/kwalletd"),
    *(".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials"),
    *(".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties"),
    *("etc/shadow", "etc/gshadow", "etc/sudoers", "etc/sudoers.d", "etc/ssh", "etc/ssl/private"),
)


def _by_first_name() -> Mapping[str, tuple[tuple[str, ...], ...]]:
    entries: dict[str, tuple[tuple[str, ...], ...]] = {}
    for place in PRIVATE_PLACES:
        parts = tuple(map(normalize_filename, place.split("/")))
        entries[parts[0]] = (*entries.get(parts[0], ()), parts)
    return MappingProxyType(entries)


_BY_FIRST_NAME = _by_first_name()

# Single names, compared with the words of commands.
PRIVATE_NAMES = frozenset(place for place in PRIVATE_PLACES if "/" not in place)


def private_place(path: Path) -> str | None:
    """Return the entry of `PRIVATE_PLACES` that an absolute path is in, or None."""
    names = tuple(map(normalize_filename, path.parts))
    for number, name in enumerate(names):
        for entry in _BY_FIRST_NAME.get(name, ()):
            if names[number : number + len(entry)] == entry:
                return "/".join(entry)
    # Short names of Windows, such as SSH~1.
    return blocked_entry(path, Path("/"), PRIVATE_PLACES) if "~" in str(path) else None
