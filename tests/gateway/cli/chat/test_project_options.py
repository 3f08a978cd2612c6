import json
from pathlib import Path

import pytest

from gateway.cli.chat.conversation import workdir_of
from gateway.config import Settings, load_settings
from gateway.core.messages import MessageOptions

LIST = [
    {"model_name": "local", "model": "ollama/llama"},
    {"model_name": "wide", "model": "ollama/llama", "context_tokens": 64_000},
    {"model_name": "cloud", "model": "openai/gpt-5", "api_key": "${NOT_SET_HERE}"},
]


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("local", 32_768),
        ("wide", 64_000),
        ("cloud", 272_000),
        ("quick", 32_768),
        ("ollama/other", 32_768),
        ("offline/echo", 128_000),
    ],
)
def test_status_line_gauge_uses_the_window_of_the_model(
    tmp_path: Path, model: str, tokens: int
) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"model_list": LIST, "profiles": {"quick": "local"}}))
    settings = load_settings(config=file, home=tmp_path, cwd=tmp_path, environ={}, overrides={})
    assert workdir_of(MessageOptions(), settings, None, tmp_path).context_window(model) == tokens


def test_mentioned_files_are_not_read_through_a_link_that_replaced_the_start_folder(
    tmp_path: Path,
) -> None:
    root, private = tmp_path / "repo", tmp_path / "private"
    for folder in (root / "sub", private):
        folder.mkdir(parents=True)
        (folder / "a.md").write_text("x")
    options = MessageOptions(cwd=str(root), start_folder=str(root / "sub"))
    workdir = workdir_of(options, Settings(), None, tmp_path)
    mentioned_files = workdir.mentions("see @a.md", ())
    assert mentioned_files is not None
    assert mentioned_files.files == [root / "sub" / "a.md"]
    (root / "sub").rename(root / "moved")
    (root / "sub").symlink_to(private)
    mentioned_files = workdir.mentions("see @a.md", ())
    assert mentioned_files is not None
    assert not mentioned_files.files
