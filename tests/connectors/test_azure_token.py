"""What Entra and a machine's identity answer when they are asked for a token."""

from __future__ import annotations

import json
import time

import pytest

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.auth.azure_token import TOKEN_LIMITS, Credential, Tokens

TOKENS = Tokens(Credential("https://login", "http://identity"), TOKEN_LIMITS, "loki")


@pytest.mark.parametrize("expires_in", [3599, "3599"])
def test_a_token_lasts_for_the_seconds_that_are_sent(expires_in: object) -> None:
    body = json.dumps({"access_token": "abc", "expires_in": expires_in}).encode()
    token, until = TOKENS._read(200, body)
    assert token == "abc"
    assert 3590 < until - time.monotonic() <= 3599


@pytest.mark.parametrize(
    ("status", "body", "problem", "refused"),
    [
        (200, b"<html>", "unexpected response", None),
        (399, b"<html>", "unexpected response", None),
        (400, b"<html>", "unexpected response", 400),
        (200, b'{"access_token": "a", "expires_in": "soon"}', "unexpected response", None),
        (200, b'{"access_token": "a\\nb"}', "no usable token", None),
        (200, '{"access_token": "ä"}'.encode(), "no usable token", None),
        (400, b'{"error": "invalid_client"}', "no token was given: invalid_client", 400),
        (400, b"{}", "no token was given: no reason given", 400),
        (
            401,
            b'{"error": "invalid_client", "error_description": "AADSTS700: tenant acme"}',
            "no token was given: invalid_client, AADSTS700 ",
            401,
        ),
    ],
)
def test_a_refusal_says_why_and_with_which_status(
    status: int, body: bytes, problem: str, refused: int | None
) -> None:
    with pytest.raises(ConnectorError, match=problem) as caught:
        TOKENS._read(status, body)
    assert (caught.value.vendor, caught.value.call) == ("loki", "token")
    assert caught.value.status == refused
    assert "acme" not in str(caught.value)


@pytest.mark.parametrize(
    ("environ", "is_managed", "url"),
    [
        ({}, True, "http://169.254.169.254/metadata/identity/oauth2/token"),
        (
            {"AZURE_FEDERATED_TOKEN_FILE": "/t", "AZURE_TENANT_ID": "a/b"},
            False,
            "https://login.microsoftonline.com/a%2Fb/oauth2/v2.0/token",
        ),
        (
            {
                "AZURE_FEDERATED_TOKEN_FILE": "/t",
                "AZURE_TENANT_ID": "t",
                "AZURE_AUTHORITY_HOST": "https://login.example/",
            },
            False,
            "https://login.example/t/oauth2/v2.0/token",
        ),
    ],
)
def test_where_a_token_comes_from(environ: dict[str, str], url: str, *, is_managed: bool) -> None:
    credential = Credential.of_environment(environ)
    assert credential.is_managed is is_managed
    assert credential.token_url == url


def test_an_application_with_a_secret_asks_entra() -> None:
    credential = Credential("https://login", "http://identity", "t", "c", client_secret="s")
    assert credential.token_url == "https://login/t/oauth2/v2.0/token"
    assert "'s'" not in repr(credential)
