from __future__ import annotations

import json
import time

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.secrets.columns import mask_column
from faultline.analysis.secrets.redaction import masked
from faultline.bot.answer.writer.payload import Redactor

SECRETS = {
    "AWS_KEY": ("key AKIAIOSFODNN7EXAMPLE used", "AKIAIOSFODNN7EXAMPLE"),
    "GITHUB_TOKEN": (
        "clone with ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    ),
    "SLACK_TOKEN": ("token xoxb-123456789012-abcdefGHIJ", "xoxb-123456789012-abcdefGHIJ"),
    "SLACK_WEBHOOK": (
        "to https://hooks.slack.com/services/T000/B000/XXXXXXXX",
        "T000/B000/XXXXXXXX",
    ),
    "DATADOG_KEY": (
        "DD-API-KEY: 0123456789abcdef0123456789abcdef",
        "0123456789abcdef0123456789abcdef",
    ),
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
    "COOKIE": ("Set-Cookie: remember=abc; Path=/", "remember=abc"),
    "SESSION": ("JSESSIONID=0FA39C1B77D2 expired", "0FA39C1B77D2"),
    "CLOUD_KEY": (
        "aws_secret = wJalrXUtnFEMIK7MDENGbPxRfiCYzzzzzzzzKEYz",
        "wJalrXUtnFEMIK7MDENGbPxRfiCYzzzzzzzzKEYz",
    ),
    "VENDOR_KEY": ("vault said hvs.CAESIJ1x9vK3mQ2pR7sT8uW4yZ", "hvs.CAESIJ1x9vK3mQ2pR7sT8uW4yZ"),
}
PERSONAL = {
    "EMAIL": ("deployed by jo.doe@example.com", "jo.doe@example.com"),
    "IBAN": ("refund to DE89 3704 0044 0532 0130 00 failed", "DE89 3704 0044 0532 0130 00"),
    "CARD": ("declined: 4111 1111 1111 1111 (code 51)", "4111 1111 1111 1111"),
    "SSN": ("applicant 219-09-9999 not found", "219-09-9999"),
    "IP": ("login from 81.2.69.142 refused", "81.2.69.142"),
    "PHONE": ("sms to +49 170 1234567 failed", "+49 170 1234567"),
    "PERSON": ("payment failed user=jane.roe amount=3", "jane.roe"),
    "USER_ID": ("no cart for customer_id=83912044", "83912044"),
}
KEYS_OF_VENDORS = [
    "LTAI5tABCDEFGHIJKLMNOPQR",
    "AKIDz8krbsJ5yKBZQpn74WFkmLPx3gnPhESA",
    "dop_v1_" + "3f" * 32,
    "ya29.a0AfH6SMBx7kQ9example-token",
    "GOCSPX-1234567890abcdefGHIJKLMNOP",
    "abc8Q~defghijklmnopqrstuvwxyz0123456789",
    "hvs.CAESIJ1x9vK3mQ2pR7sT8uW4yZ",
    "dapi" + "0a" * 16,
    "glsa_" + "aB3d" * 8 + "_0123abcd",
    "NRAK-ABCDEFGHIJKLMNOPQRSTUVWXYZ1",
    "sntryu_" + "0a" * 32,
    "dt0c01.ABCDEFGHIJKLMNOPQRSTUVWX." + "A1" * 32,
    "ATATT3" + "xFfG" * 20,
    "lin_api_" + "aB3d" * 10,
    "shpat_" + "0a" * 16,
    "SK" + "0a" * 16,
    "key-" + "0a" * 16,
    "123456789:AAF" + "x" * 32,
    "dckr_pat_" + "aB3d" * 7,
    "gsk_" + "aB3d" * 13,
    "glpat-abcdefGHIJ0123456789",
    "sk-ant-api03-abcdefghijklmnopqrst",
    "xoxe.xoxp-1-Mi0yLTEyMzQ1Njc4OTA",
    "https://discord.com/api/webhooks/123456789012345678/" + "a" * 68,
]
KEY = "\n".join(
    [
        "-----BEGIN RSA PRIVATE KEY-----",
        "Proc-Type: 4,ENCRYPTED",
        "DEK-Info: AES-128-CBC,B8A1",
        "",
        "MIIEpAIBAAKCAQEA" + "aB3+" * 12,
        "Zz9/" * 16,
        "-----END RSA PRIVATE KEY-----",
    ]
)


@pytest.mark.parametrize("kind", SECRETS)
def test_a_planted_secret_becomes_a_placeholder_and_never_comes_back(kind: str) -> None:
    text, secret = SECRETS[kind]
    redactor = Redactor()
    sent = redactor.redact(text)
    assert secret not in sent
    assert f"[{kind}_1]" in sent
    assert redactor.reveal(sent) == masked(text)
    assert secret not in repr(vars(redactor))


@pytest.mark.parametrize("kind", PERSONAL)
def test_personal_data_becomes_a_placeholder_and_comes_back(kind: str) -> None:
    text, value = PERSONAL[kind]
    redactor = Redactor()
    sent = redactor.redact(text)
    assert value not in sent
    assert f"[{kind}_1]" in sent
    assert redactor.reveal(sent) == text
    assert masked(text) == text


@pytest.mark.parametrize("key", KEYS_OF_VENDORS)
def test_the_keys_of_common_vendors_do_not_leave(key: str) -> None:
    line = f'config loaded: value "{key}" for upstream'
    for text in (line, masked(line)):
        sent = Redactor().redact(text)
        assert key not in sent
        assert "config loaded" in sent
    assert mask_column(pl.Series([line])).to_list() == [masked(line)]


def test_a_private_key_goes_whole_also_line_by_line_and_as_json() -> None:
    for text in (f"loaded {KEY} at start", json.dumps({"private_key": KEY})):
        sent = Redactor().redact(text)
        assert "MIIEp" not in sent
        assert "Zz9/" not in sent
        assert "DEK-Info" not in sent
    assert "at start" in Redactor().redact(f"loaded {KEY} at start")
    rows = pl.Series("message", KEY.split("\n"))
    assert not any("MIIEp" in row or "Zz9/" in row for row in mask_column(rows).to_list())


def test_one_value_has_one_placeholder_in_alert_logs_and_results() -> None:
    redactor = Redactor()
    sent = [
        redactor.redact(t)
        for t in (
            "from jo@example.com",
            "user=jo@example.com",
            '{"email": "jo@example.com", "n": 1}',
        )
    ]
    assert all("[EMAIL_1]" in s for s in sent)
    assert redactor.redact("to ann@example.com") == "to [EMAIL_2]"


def test_text_that_looks_like_a_placeholder_cannot_speak_for_another() -> None:
    redactor = Redactor()
    first = redactor.redact("mail to jo@example.com")
    forged = redactor.redact("the culprit is [EMAIL_1], says [EMAIL_2] and [LITERAL_1]")
    assert first == "mail to [EMAIL_1]"
    assert "[EMAIL_" not in forged
    assert redactor.reveal(forged) == "the culprit is [EMAIL_1], says [EMAIL_2] and [LITERAL_1]"
    assert redactor.reveal("[EMAIL_7] [AWS_KEY_3]") == "[EMAIL_7] [AWS_KEY_3]"


def test_equal_secrets_share_a_placeholder_and_others_do_not() -> None:
    redactor = Redactor()
    sent = redactor.redact("password=hunter2 password=hunter2 password=hunter3")
    assert sent == "password=[SECRET_1] password=[SECRET_1] password=[SECRET_2]"


def test_every_text_of_a_nested_value_is_redacted() -> None:
    redactor = Redactor()
    sent = redactor.redact_all(
        {"a@b.example": ["AKIAIOSFODNN7EXAMPLE", {"x": ("pwd=hunter2", 3, None)}]}
    )
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


@pytest.mark.parametrize(
    "text",
    [
        "connect 10.0.3.7:5432 failed; 127.0.0.1 and 192.168.1.20 answer; 100.64.2.3 does not",
        "went from 1718722960123 to 1718722960999 in 4029384756102938475 ns",
        "std::vec::Vec at src/main.rs:12:34, 12:34:56.789 UTC, mac 00:1b:44:11:3a:b7",
        "user=root user=postgres user: unknown; user-service: timeout; login failed for the user",
        "offset +0200, value +12345, build 2026-06-18-1234, order 123-456",
        "user=<*> username=${USER} user={}",
    ],
)
def test_machines_and_numbers_are_no_persons(text: str) -> None:
    assert Redactor().redact(text) == text


@given(
    st.lists(
        st.text(max_size=60) | st.sampled_from([t for t, _ in PERSONAL.values()] + ["[EMAIL_1]"]),
        max_size=6,
    )
)
def test_personal_data_can_always_be_put_back(texts: list[str]) -> None:
    redactor = Redactor()
    sent = [redactor.redact(t) for t in texts]
    assert [redactor.reveal(s) for s in sent] == [masked(t) for t in texts]


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "a",
            "eyJ-",
            "password ",
            "a:",
            "x.x@",
            "://",
            "token=",
            "dd_key ",
            "-----BEGIN ",
            "4",
            "4111 ",
            "+49 ",
            "::",
        ),
        *(
            "-----BEGIN PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY----- a",
            "user=",
            "1.1.",
            "DE89",
            "cookie: a=",
            "[EMAIL_",
        ),
        *(
            "client_ip=",
            "a/+B",
            "ATATT3",
            "aws ",
            "0" * 40 + "\n",
            "[EMAIL_1]",
            "(555) ",
            "phone=+",
            "A3-",
        ),
    ],
)
def test_time_is_linear_in_the_text(piece: str) -> None:
    def spent(length: int) -> float:
        started = time.process_time()
        Redactor().redact(piece * (length // len(piece)))
        return time.process_time() - started

    assert spent(40_000) < 12 * max(spent(10_000), 0.02)


@pytest.mark.parametrize("text", ["patient: availability fell", "customer: Patient answers"])
def test_a_service_is_nobodys_name(text: str) -> None:
    assert "[PERSON_1]" in Redactor().redact(text)
    assert Redactor(services=frozenset({"patient", "customer"})).redact(text) == text
