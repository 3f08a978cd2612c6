"""Values and names that count as secrets, and others that do not."""

import random
import string

import pytest

from agent.security.secret_values import (
    is_secret_value,
    is_token,
    names_secret,
    secrets_in_addresses,
    secrets_in_map,
)

WORDS = (
    "postgres postgres15 production2024 password123 admin1234 changeme dummy EMPTY not-needed "
    "ollama sk-no-key-required your-openai-api-key-goes-here sk-xxxxxxxxxxxxxxxxxxxxxxxx "
    "lm-studio us-east-1 127.0.0.1 created_at application/json text/event-stream gpt-5-mini "
    "debian-12-slim 12345678 internationalization MyProductionDatabaseName "
    "correct-horse-battery-staple administrator"
)
ALPHABETS = {
    "base62": string.ascii_letters + string.digits,
    "base36": string.ascii_lowercase + string.digits,
    "base32": string.ascii_uppercase + "234567",
    "hexadecimal": "0123456789abcdef",
}


@pytest.mark.parametrize("word", WORDS.split())
def test_word_is_not_a_secret(word: str) -> None:
    assert not is_secret_value(word)


@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_random_text_is_a_secret(alphabet: str) -> None:
    chance = random.Random(1)
    values = ["".join(chance.choices(ALPHABETS[alphabet], k=24)) for _ in range(1000)]
    assert sum(map(is_secret_value, values)) >= 995


@pytest.mark.parametrize("alphabet", sorted(ALPHABETS.keys() - {"hexadecimal"}))
def test_long_random_text_is_a_token(alphabet: str) -> None:
    chance = random.Random(1)
    values = ["".join(chance.choices(ALPHABETS[alphabet], k=40)) for _ in range(1000)]
    assert sum(map(is_token, values)) >= 950
    assert sum(is_token(f"sk_live_{value}") for value in values) >= 950


def test_short_password_with_digits_is_a_secret() -> None:
    for value in ("x7Kp2mQ9", "Tr0ub4dor&3", "p!x@#q$z9"):
        assert is_secret_value(value), value
        assert not is_token(value), value


@pytest.mark.parametrize(
    "text",
    [
        "/usr/local/lib/node20/bin/x86_64-linux-gnu",
        "--max-old-space-size=4096",
        "claude-haiku-4-5-20251001",
        "com.example.my-application_v12.3.45",
        "2025-06-18T12:00:00Z",
        "https://example.org/a/b/c/d/e/f/0123456789",
        "x86_64-unknown-linux-gnu",
        "mydb.c9akciq32.us-east-1.rds.amazonaws.com",
        "com.example.MyHTTPServerImplV2",
        "com.example.AbstractHTTP2ServerFactoryBeanImplV2",
        "py311h06a4308_cudatoolkit",
        "nvidia/cuda-12.1.1-cudnn8-devel-ubuntu22.04",
        "2024Q1_Revenue_EU_v3_FINAL",
        "cp312-manylinux_2_17_x86_64",
        string.ascii_uppercase,
        "d41d8cd98f00b204e9800998ecf8427e00000000",
        "v1.2.3-14-g3f786850e387550fdab836ed7e6dc88112345678",
        "0x3f786850e387550fdab836ed7e6dc88112345678",
        "550e8400-e29b-41d4-a716-446655440000",
    ],
)
def test_long_text_is_not_a_token(text: str) -> None:
    assert not is_token(text)


def test_names_of_secrets() -> None:
    secret = (
        "GITHUB_TOKEN token apiKey api-key X-API-Key PGPASSWORD password Authorization Cookie "
        "OPENAI_API_KEYS clientSecret API_KEY_2"
    )
    other = "PATH max_tokens sort-key primary_key tls_key key_env keyboard token_url"
    assert [name for name in secret.split() if not names_secret(name)] == []
    assert [name for name in other.split() if names_secret(name)] == []


def test_name_declares_a_secret_in_a_map() -> None:
    values = {
        "PGUSER": "x7Kp2mQ9",
        "PGPASSWORD": "y8Lq3nR0",
        "Authorization": "Bearer z9Mr4oS1",
        "PROJECT_ID": "550e8400-e29b-41d4-a716-446655440000",
        "RANDOM": "4jQ8xZ1vT6kWb3NpR9sYc2Hd7LmG5fA0",
        "GIT_REV": "3f786850e387550fdab836ed7e6dc881",
        "CARGO_BUILD_TARGET": "x86_64-unknown-linux-gnu",
        "URL": "redis://app:w6Jo1lP8@host",
    }
    texts = set(secrets_in_map(values))
    assert {"y8Lq3nR0", "z9Mr4oS1", "4jQ8xZ1vT6kWb3NpR9sYc2Hd7LmG5fA0", "w6Jo1lP8"} <= texts
    assert texts.isdisjoint(values[name] for name in ("PGUSER", "GIT_REV", "CARGO_BUILD_TARGET"))
    assert not any(value.startswith("550e") for value in texts)


def test_password_or_token_of_an_address_is_secret() -> None:
    assert list(secrets_in_addresses("postgresql://postgres@host/kore")) == []
    token = "3f786850e387550fdab836ed7e6dc881"
    assert list(secrets_in_addresses(f"https://{token}@host")) == [token]
    assert set(secrets_in_addresses("amqp://u:a%2Fb@host")) == {"a%2Fb", "a/b"}
    assert list(secrets_in_addresses("https://h/x?api_key=q1&page=2")) == ["q1"]
