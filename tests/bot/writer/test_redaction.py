from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.redaction import masked
from bot.writer.redaction import Redactor

SECRETS = {
    "AWS_KEY": ("key AKIAIOSFODNN7EXAMPLE used", "AKIAIOSFODNN7EXAMPLE"),
    "GITHUB_TOKEN": ("clone with ghp_16C7e42F292c6912E7710c838347Ae178B4a", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"),
    "SLACK_TOKEN": ("token xoxb-123456789012-abcdefGHIJ", "xoxb-123456789012-abcdefGHIJ"),
    "SLACK_WEBHOOK": ("to https://hooks.slack.com/services/T000/B000/XXXXXXXX", "T000/B000/XXXXXXXX"),
    "DATADOG_KEY": ("DD-API-KEY: 0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef"),
    "PAGERDUTY_KEY": ("pagerduty_api_key = y_NbAkKc66ryYTWUXYEu", "y_NbAkKc66ryYTWUXYEu"),
    "PRIVATE_KEY": (
        "-----BEGIN RSA PRIVATE KEY----- MIIEpAIBAAKCAQEA -----END RSA PRIVATE KEY-----",
        "MIIEpAIBAAKCAQEA",
    ),
    "JWT": ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jV", "eyJzdWIiOiIxMjM0In0"),
    "AUTHORIZATION": ("Authorization: Bearer abcdef1234567890", "abcdef1234567890"),
    "CONNECTION_PASSWORD": ("postgresql://svc:p4ssw0rd@db:5432/orders", "p4ssw0rd"),
    "SECRET": ('{"user": "svc", "password": "correct horse"}', "correct horse"),
    "MODEL_KEY": ("OPENAI sk-proj-abcdefghijklmnop1234", "sk-proj-abcdefghijklmnop1234"),
    "EMAIL": ("deployed by jo.doe@example.com", "jo.doe@example.com"),
}


@pytest.mark.parametrize("kind", SECRETS)
def test_a_planted_secret_becomes_a_placeholder_and_comes_back(kind: str) -> None:
    text, secret = SECRETS[kind]
    redactor = Redactor()
    sent = redactor.redact(text)
    assert secret not in sent
    assert f"[{kind}_1]" in sent
    assert redactor.restore(sent) == text
    assert redactor.redact(sent) == sent


def test_equal_secrets_share_a_placeholder_and_others_do_not() -> None:
    redactor = Redactor()
    sent = redactor.redact("password=hunter2 password=hunter2 password=hunter3")
    assert sent == "password=[SECRET_1] password=[SECRET_1] password=[SECRET_2]"


def test_every_text_of_a_nested_value_is_redacted() -> None:
    redactor = Redactor()
    sent = redactor.redact_all({"a@b.example": ["AKIAIOSFODNN7EXAMPLE", {"x": ("pwd=hunter2", 3, None)}]})
    assert sent == {"[EMAIL_1]": ["[AWS_KEY_1]", {"x": ["pwd=[SECRET_1]", 3, None]}]}


def test_the_report_names_a_secret_by_its_kind_and_shows_an_address() -> None:
    redactor = Redactor()
    sent = redactor.redact("jo@example.com leaked AKIAIOSFODNN7EXAMPLE")
    assert (
        redactor.reveal(sent)
        == "jo@example.com leaked [AWS_KEY]"
        == masked("jo@example.com leaked AKIAIOSFODNN7EXAMPLE")
    )


@pytest.mark.parametrize(
    "text",
    [
        "Deploy 559e94ce37a7b4b6053149c40ba8a5bc9113ca6e came 3.3 min before the onset",
        "trace 0123456789abcdef0123456789abcdef is slow",
        "invalid token: expired; password: incorrect; basic authentication failed",
        "max_tokens=512 tokens: 100 token_count=12",
        "secret rotation took 12 s; AccessKey missing; the bearer certificate expired",
    ],
)
def test_ordinary_telemetry_is_left_alone(text: str) -> None:
    assert Redactor().redact(text) == text


@given(st.text(max_size=120))
def test_redaction_can_always_be_undone(text: str) -> None:
    redactor = Redactor()
    assert redactor.restore(redactor.redact(text)) == text or "[" in text


@pytest.mark.parametrize("piece", ["a", "eyJ-", "password ", "a:", "x.x@", "://", "token=", "dd_key ", "-----BEGIN "])
def test_time_is_linear_in_the_text(piece: str) -> None:
    text = piece * (50_000 // len(piece))
    started = time.process_time()
    Redactor().redact(text)
    assert time.process_time() - started < 2
