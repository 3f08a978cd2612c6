"""Ports and sockets of Kore that commands cannot reach as local services."""

from pathlib import Path

import pytest

from agent.security.local_services import LocalService
from gateway.config import Settings
from gateway.config.sections import HttpSection, ServerSection
from gateway.runtime.local_access import ServerAccess, published_access
from gateway.runtime.paths import DataDir
from gateway.runtime.sandbox import own_services


def is_own(service: str, home: Path, *, http: int = 8787, listen: str | None = None) -> bool:
    settings = Settings().model_copy(
        update={"http": HttpSection(port=http), "server": ServerSection(listen=listen)}
    )
    own = own_services(settings, DataDir(home))
    return own.objection(LocalService.parse(service)) is not None


def test_configured_ports_are_own(tmp_path: Path) -> None:
    assert is_own("127.0.0.1:8787", tmp_path)
    assert is_own("[::1]:8787", tmp_path)
    assert is_own("127.0.0.1:8801", tmp_path, listen="127.0.0.1:8801")
    assert not is_own("127.0.0.1:8801", tmp_path)


def test_port_of_the_server_of_another_process_is_own(tmp_path: Path) -> None:
    access = ServerAccess(f"unix:{tmp_path}/server.sock", "http://127.0.0.1:8802")
    with published_access(DataDir(tmp_path).server_access, access):
        assert is_own("127.0.0.1:8802", tmp_path, listen="auto")
    assert not is_own("127.0.0.1:8802", tmp_path, listen="auto")


@pytest.mark.parametrize("name", ["kore.sock", "server.sock", "tmp/x/db.sock"])
def test_sockets_of_the_data_folder_are_own(name: str, tmp_path: Path) -> None:
    assert is_own(f"unix:{tmp_path / name}", tmp_path)


def test_configured_socket_is_own_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert is_own("unix:/run/kore.sock", tmp_path, listen="unix:/run/kore.sock")
    assert is_own(f"unix:{tmp_path}/link/kore.sock", tmp_path)
    assert not is_own("unix:/run/docker.sock", tmp_path, listen="unix:/run/kore.sock")
