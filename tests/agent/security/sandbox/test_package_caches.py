"""Caches of package managers in a sandbox, with real Go and cargo and without a network."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from agent.security.sandbox.base import SandboxCommand
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.security.sandbox.environment import find_toolchains
from agent.security.sandbox.landlock.sandbox import kernel_abi
from agent.tools.shell.process_group import run
from gateway.config import Settings
from gateway.runtime.sandbox import sandbox_options
from tests.agent.tools.bubblewrap import installed_bubblewrap
from tests.ordinary_user import USERS, require_sandbox, run_as, shared_place

PROGRAM = Path("tests", "agent", "security", "sandbox", "report_program.py")

GO_SOURCE = 'package greet\n\nfunc Hello() string { return "hello" }\n'
GO_TEST = """package x

import (
	"testing"

	"example.org/greet"
)

func TestHello(t *testing.T) {
	if greet.Hello() != "hello" {
		t.Fatal()
	}
}
"""
MANIFEST = '[package]\nname = "greet"\nversion = "1.0.0"\nedition = "2021"\n'
RUST_SOURCE = 'pub fn hello() -> &\'static str { "hello" }\n'
RUST_TEST = '#[test]\nfn hello() { assert_eq!(greet::hello(), "hello"); }\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


async def output_of(box: Bubblewrap, line: str, workspace: Path) -> str:
    output = bytearray()
    with box.prepare(SandboxCommand(line, workspace, workspace)) as spawn:
        await run(spawn, 200, output.extend)
    return output.decode()


def box_with(home: Path, *readable: Path) -> Bubblewrap:
    box = replace(installed_bubblewrap(), readable_folders=readable)
    return replace(box, toolchains=find_toolchains(home))


@pytest.mark.skipif(not os.path.exists("/usr/bin/go"), reason="go is not installed")
async def test_go_test_uses_downloaded_modules(home: Path, workspace: Path) -> None:
    folder = home / "go/pkg/mod/cache/download/example.org/greet/@v"
    folder.mkdir(parents=True)
    module = "module example.org/greet\n\ngo 1.19\n"
    (folder / "v1.0.0.mod").write_text(module)
    (folder / "v1.0.0.info").write_text('{"Version":"v1.0.0"}')
    with zipfile.ZipFile(folder / "v1.0.0.zip", "w") as archive:
        archive.writestr("example.org/greet@v1.0.0/go.mod", module)
        archive.writestr("example.org/greet@v1.0.0/greet.go", GO_SOURCE)
    (workspace / "go.mod").write_text(
        "module example.org/x\n\ngo 1.19\n\nrequire example.org/greet v1.0.0\n"
    )
    (workspace / "x_test.go").write_text(GO_TEST)
    text = await output_of(box_with(home), "go mod tidy && go test ./...", workspace)
    assert "ok  \texample.org/x" in text


GEM = """Gem::Specification.new do |gem|
  gem.name, gem.version, gem.summary, gem.authors = "greet", "1.0.0", "A greeting", ["Ada"]
  gem.files = ["lib/greet.rb"]
end
"""


@pytest.mark.skipif(not os.path.exists("/usr/bin/bundle"), reason="bundler is not installed")
@pytest.mark.parametrize("place", [".gem/ruby/3.1.0", ".local/share/gem/ruby/3.1.0"])
async def test_bundler_uses_installed_gems(home: Path, workspace: Path, place: str) -> None:
    gems = home / place
    (gems / "gems/greet-1.0.0/lib").mkdir(parents=True)
    (gems / "gems/greet-1.0.0/lib/greet.rb").write_text('HELLO = "hello"\n')
    (gems / "specifications").mkdir()
    (gems / "specifications/greet-1.0.0.gemspec").write_text(GEM)
    (gems.parents[1] / "credentials").write_text("canary\n")
    (workspace / "Gemfile").write_text('gem "greet"\ngem "rake"\n')
    line = "bundle exec ruby -e 'require \"greet\"; puts HELLO'; bundle exec rake --version"
    text = await output_of(box_with(home), f"{line}; cat {gems.parents[1]}/credentials", workspace)
    assert text.startswith("hello\nrake, version"), text
    assert "canary" not in text


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Serve a registry with the crate `greet`."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as crate:
        for name, text in (("Cargo.toml", MANIFEST), ("src/lib.rs", RUST_SOURCE)):
            member = tarfile.TarInfo(f"greet-1.0.0/{name}")
            member.size = len(text)
            crate.addfile(member, io.BytesIO(text.encode()))
    (folder / "gr/ee").mkdir(parents=True)
    (folder / "greet-1.0.0.crate").write_bytes(archive.getvalue())
    checksum = hashlib.sha256(archive.getvalue()).hexdigest()
    entry = {"name": "greet", "vers": "1.0.0", "deps": [], "cksum": checksum, "features": {}}
    (folder / "gr/ee/greet").write_text(json.dumps({**entry, "yanked": False}))
    handler = partial(SimpleHTTPRequestHandler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        (folder / "config.json").write_text(
            json.dumps({"dl": f"{url}/{{crate}}-{{version}}.crate"})
        )
        Thread(target=server.serve_forever).start()
        try:
            yield url
        finally:
            server.shutdown()


def rust_toolchain() -> Path:
    """Return the folder of the toolchain, or skip the test."""
    rustup = shutil.which("rustup")
    if rustup is None:
        pytest.skip("rustup is not installed")
    ran = subprocess.run([rustup, "which", "cargo"], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        pytest.skip("rustup has no toolchain")
    return Path(ran.stdout.strip()).parents[1]


async def test_cargo_test_uses_downloaded_crates(
    home: Path, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolchain = rust_toolchain()
    programs = f"{toolchain}/bin:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", programs)
    (workspace / "src").mkdir()
    (workspace / "src/lib.rs").write_text(RUST_TEST)
    (workspace / "Cargo.toml").write_text(
        MANIFEST.replace("greet", "x")
        + '[dependencies]\ngreet = { version = "1", registry = "near" }\n'
    )
    (workspace / ".cargo").mkdir()
    served = tmp_path / "registry"
    served.mkdir()
    with registry(served) as url:
        (workspace / ".cargo/config.toml").write_text(
            f'[registries.near]\nindex = "sparse+{url}/"\n'
        )
        subprocess.run(
            [toolchain / "bin/cargo", "fetch"], cwd=workspace, check=True, capture_output=True,
            env={"PATH": programs, "HOME": str(home), "CARGO_HOME": str(home / ".cargo")},
        )  # fmt: skip
    (home / ".cargo/credentials.toml").write_text("canary")
    box = box_with(home, toolchain)
    line = f"cargo test 2>&1; ls -a {home}/.cargo; cat {home}/.cargo/credentials.toml"
    text = await output_of(box, line, workspace)
    assert "test hello ... ok" in text
    assert "canary" not in text


def make_files(home: Path, paths: Mapping[str, str]) -> None:
    for name, text in paths.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)


CREDENTIALS = [
    ".cargo/credentials.toml", ".cargo/config.toml", ".m2/settings.xml", ".config/pnpm/rc",
    ".gradle/gradle.properties", ".nuget/NuGet/NuGet.Config", ".npmrc", ".config/pip/pip.conf",
    ".config/pypoetry/auth.toml", ".m2/settings-security.xml", ".condarc", "miniconda3/.condarc",
    ".julia/servers/host/auth.toml", ".cabal/config", "go/pkg/mod/cache/vcs/x/config",
    ".julia/registries/x/.git/config", ".opam/log/x.env", ".opam/repo/x/.git/config",
    ".opam/5.1/.opam-switch/sources/x/.git/config", "miniconda3/envs/x/.condarc",
    ".conda/envs/x/conda-meta/state", ".cache/pypoetry/virtualenvs/x/pip.conf",
    ".local/share/pypoetry/venv/pip.conf", ".local/share/virtualenvs/x/pip.conf",
    ".local/share/pipx/venvs/x/pipx_metadata.json", ".virtualenvs/postactivate",
]  # fmt: skip
PACKAGES = [
    ".cargo/registry/x", ".cargo/git/x", ".m2/repository/x", ".gradle/caches/modules-2/x",
    ".nuget/packages/x", "go/pkg/mod/cache/download/x", ".ghcup/bin/x", ".julia/packages/x",
    ".local/share/pnpm/store/x",
]  # fmt: skip


async def test_packages_are_visible_and_logins_are_not(home: Path, workspace: Path) -> None:
    make_files(home, dict.fromkeys(CREDENTIALS, "login"))
    make_files(home, dict.fromkeys(PACKAGES, "package"))
    line = f"cd {home} && cat {' '.join([*CREDENTIALS, *PACKAGES])} 2>/dev/null"
    text = await output_of(box_with(home), line, workspace)
    assert "login" not in text
    assert text.count("package") == len(PACKAGES)


async def test_cache_behind_a_link_or_of_another_user_is_not_shown(
    home: Path, workspace: Path, tmp_path: Path
) -> None:
    make_files(tmp_path, {"elsewhere/key": "canary", "other/key": "canary"})
    (home / ".m2").mkdir()
    (home / ".m2/repository").symlink_to(tmp_path / "elsewhere")
    (home / ".gradle").symlink_to(tmp_path / "other")
    (tmp_path / "other/caches/modules-2").mkdir(parents=True)
    (tmp_path / "other/caches/modules-2/key").write_text("canary")
    make_files(home, {".cargo/registry/key": "canary"})
    if os.geteuid() == 0:
        os.chown(home / ".cargo/registry", 65534, 65534)
    else:
        shutil.rmtree(home / ".cargo/registry")
    line = f"cat {home}/.m2/repository/key {home}/.gradle/caches/modules-2/key {home}/.cargo/*/key"
    assert "canary" not in await output_of(box_with(home), line, workspace)


async def test_cache_that_becomes_a_link_later_is_not_shown(
    home: Path, workspace: Path, tmp_path: Path
) -> None:
    make_files(tmp_path, {"elsewhere/key": "canary"})
    make_files(home, {".m2/repository/x": "package"})
    box = box_with(home)
    shutil.rmtree(home / ".m2/repository")
    (home / ".m2/repository").symlink_to(tmp_path / "elsewhere")
    assert "canary" not in await output_of(box, f"cat {home}/.m2/repository/key", workspace)


async def test_cache_in_the_workspace_stays_writable(home: Path) -> None:
    make_files(home, {".m2/repository/x": "package"})
    box = box_with(home)
    assert await output_of(box, "echo y >.m2/repository/y && cat .m2/repository/y", home) == "y\n"


async def test_linked_programs_are_found(
    home: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_files(home, {".ghcup/bin/tool": "#!/bin/sh\necho linked\n", ".local/bin/own": "canary"})
    tool = home / ".ghcup/bin/tool"
    tool.chmod(0o755)
    (home / ".local/bin/tool").symlink_to(tool)
    monkeypatch.setenv("PATH", f"{home}/.local/bin:{os.environ['PATH']}")
    text = await output_of(box_with(home), f"tool; cat {home}/.local/bin/own", workspace)
    assert text.startswith("linked\n")
    assert "canary" not in text


async def test_active_environment_is_not_shown(
    home: Path, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A command of another project could have planted its programs.
    environment = tmp_path / "other" / ".venv"
    make_files(environment, {"pyvenv.cfg": "", "bin/git": "#!/bin/sh\necho canary\n"})
    (environment / "bin/git").chmod(0o755)
    monkeypatch.setenv("VIRTUAL_ENV", str(environment))
    monkeypatch.setenv("PATH", f"{environment}/bin:{os.environ['PATH']}")
    options = sandbox_options(Settings(), tmp_path / "kore")
    box = replace(installed_bubblewrap(), toolchains=options.toolchains)
    text = await output_of(
        box, f"git --version; ls {environment}; echo $VIRTUAL_ENV $PATH", workspace
    )
    assert "canary" not in text
    assert "pyvenv.cfg" not in text.splitlines()
    assert f"{environment}/bin" not in text


async def test_without_mounts_by_descriptor_no_cache_is_shown(home: Path, workspace: Path) -> None:
    make_files(home, {".gradle/caches/modules-2/x": "package"})
    box = replace(box_with(home), features=frozenset(), runs_as_root=False)
    with box.prepare(SandboxCommand("true", workspace, workspace)) as spawn:
        assert not any(".gradle" in word for word in spawn.argv)


@pytest.mark.parametrize("name", [".m2", ".m2/repository", ".m2/repository/kore"])
def test_cache_around_or_in_kores_folder_is_left_out(home: Path, name: str) -> None:
    make_files(home, {".m2/repository/kore/x": "package", ".gradle/caches/modules-2/x": "package"})
    assert find_toolchains(home, home / name).caches == (home / ".gradle/caches/modules-2",)


def test_caches_are_below_the_home_folder(home: Path) -> None:
    table = tomllib.loads(Path("agent/security/sandbox/toolchains.toml").read_text())
    names = [name for entry in table.values() for name in entry.get("caches", ())]
    assert names
    for name in names:
        path = Path(name)
        assert not path.is_absolute()
        assert path.parts
        assert ".." not in path.parts


def test_variables_are_for_commands_without_a_network(home: Path, workspace: Path) -> None:
    make_files(home, {".gradle/caches/modules-2/x": "package"})
    toolchains = find_toolchains(home)
    job = SandboxCommand("true", workspace, workspace)
    assert toolchains.variables_of(job) == {"GRADLE_RO_DEP_CACHE": f"{home}/.gradle/caches"}


def test_packages_are_visible_under_landlock() -> None:
    require_sandbox("landlock")
    files = {**dict.fromkeys(CREDENTIALS, "login"), **dict.fromkeys(PACKAGES, "package")}
    lines = [
        f"cd $HOME_HERE; cat {' '.join(files)} 2>/dev/null",
        "echo x >$HOME_HERE/.m2/repository/x",
        "cd $HOME_HERE && ln -sfn .. .m2/repository; echo $GRADLE_RO_DEP_CACHE",
    ]
    order = {"lines": lines, "abi": kernel_abi(), "files": files}
    with shared_place(PROGRAM) as place:
        reports: list[Any] = run_as(USERS[-1], place, PROGRAM, order)
    (_, _, _, text), (code, *_), (_, _, _, variable) = reports
    assert "login" not in text
    assert text.count("package") == len(PACKAGES)
    assert code != 0
    assert variable.endswith("/home/.gradle/caches\n")
