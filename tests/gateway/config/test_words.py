import pytest

from gateway.config.secret_keys import STARS, secrets_of, starred_words


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--token", "canary-1"], ["--token", STARS]),
        (["--api-key", "canary-1", "--root", "/srv"], ["--api-key", STARS, "--root", "/srv"]),
        (["--github_token", "canary-1"], ["--github_token", STARS]),
        (["--apiKey", "canary-1"], ["--apiKey", STARS]),
        (["--api-key=canary-1"], [f"--api-key={STARS}"]),
        (["-e", "GITHUB_TOKEN=canary-1"], ["-e", f"GITHUB_TOKEN={STARS}"]),
        (["key=canary-1"], [f"key={STARS}"]),
        (["https://h/x?api_key=canary-1&page=2"], [f"https://h/x?api_key={STARS}&page=2"]),
        (["postgres://me:canary-1@db/x"], [f"postgres://{STARS}@db/x"]),
        (["-H", "Authorization: Bearer canary-1"], ["-H", f"Authorization: {STARS}"]),
        (['{"api_key": "canary-1"}'], [f'{{"api_key": "{STARS}"}}']),
        (["ghp_canary0123456789"], [STARS]),
    ],
)
def test_secrets_in_arguments_are_masked(words: list[str], shown: list[str]) -> None:
    assert starred_words(words) == shown
    assert any("canary" in secret for secret in secrets_of(words))


@pytest.mark.parametrize(
    "words",
    [
        ["-y", "@scope/server-files", "/srv/data"],
        ["--max-tokens", "4000", "--monkey", "banana", "keyboard=us"],
        ["--token", "--verbose"],
        ["--token", "${GITHUB_TOKEN}", "--key=${KEY}"],
        ["https://example.org/mcp?page=2"],
    ],
)
def test_other_arguments_are_unchanged(words: list[str]) -> None:
    assert starred_words(words) == words
    assert list(secrets_of(words)) == []
