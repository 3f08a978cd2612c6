import pytest

from agent.providers.local_discovery import LocalServer
from gateway.cli.onboarding.provider import _with_scheme, list_choices


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("localhost:8080", "http://localhost:8080"),
        ("192.168.1.5:8080/v1", "http://192.168.1.5:8080/v1"),
        ("nas:11434", "http://nas:11434"),
        ("nas", "http://nas"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("box.local/v1", "http://box.local/v1"),
        ("models.example.com/v1", "https://models.example.com/v1"),
        ("http://models.example.com", "http://models.example.com"),
        ("ftp://x", "ftp://x"),
        ("", ""),
    ],
)
def test_address_needs_no_scheme(typed: str, expected: str) -> None:
    assert _with_scheme(typed) == expected


def test_ollama_is_listed_once() -> None:
    for servers in ([], [LocalServer("ollama", 11434, ("llama3.2",))]):
        vendors = [choice.vendor.name for choice in list_choices(servers, {}) if choice.vendor]
        assert vendors.count("ollama") == 1
