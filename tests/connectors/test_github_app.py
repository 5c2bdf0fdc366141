"""A GitHub App's key is exchanged for a token that may only read, and used for nothing else."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from pydantic import SecretStr

from faultline.analysis.errors import ConnectorError, SettingsError
from faultline.connectors.shared.contract.base import collect_from
from faultline.connectors.vendors.code_hosts import GitHubSettings
from faultline.connectors.vendors.code_hosts.github import GitHubConnector
from faultline.connectors.vendors.code_hosts.github_app import PERMISSIONS, GitHubApp
from tests.connectors.conftest import request_for
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins import github as stand_in
from tests.rsa_keys import rsa_key, rsa_pem

KEY = SecretStr(rsa_pem(0).decode())
PATH = "/app/installations/34/access_tokens"


def settings_of(api_url: str) -> GitHubSettings:
    """An app's login."""
    return GitHubSettings(api_url=api_url, app_id="12", installation_id="34", private_key=KEY)


def answer_of_exchange() -> dict[str, Any]:
    """What GitHub answers."""
    return {
        "token": "ghs_" + "x" * 36,
        "expires_at": "2026-03-02T13:00:00Z",
        "permissions": PERMISSIONS,
    }


def test_a_signed_claim_is_exchanged_once_for_a_token_that_may_only_read(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    server.on(PATH, Reply(answer_of_exchange(), status=201))
    connector = GitHubConnector(settings_of(server.url), {"checkout": (stand_in.REPOSITORY,)})
    for _ in range(2):
        collected = asyncio.run(
            collect_from(connector, request_for(tmp_path, services=("checkout",)))
        )
        assert collected.tables["changes"].height
    (exchange,) = [a for a in server.asked if a.method == "POST"]
    assert json.loads(exchange.body) == {"permissions": PERMISSIONS}
    assert set(PERMISSIONS.values()) == {"read"}
    head, claims, signature = exchange.headers["Authorization"].removeprefix("Bearer ").split(".")
    rsa_key(0).public_key().verify(
        decoded(signature), f"{head}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256()
    )
    said = json.loads(decoded(claims))
    now = datetime.now(UTC).timestamp()
    assert said["iss"] == "12"
    assert said["iat"] < now < said["exp"] <= said["iat"] + 600
    tokens = {a.headers["Authorization"] for a in server.asked if a.method == "GET"}
    assert tokens == {"Bearer ghs_" + "x" * 36}


def decoded(part: str) -> bytes:
    """Base64 without padding."""
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply({"message": "Bad credentials"}, status=401), "authentication failed"),
        (Reply({}, status=422), "not accepted"),
        (Reply({"tok": 1}, status=201), "holds no token"),
        (Reply(b"\xff{", status=201), "holds no token"),
        (Reply(b"", status=302, headers={"Location": "https://example.com"}), "HTTP 302"),
        (Reply(b'"' + b"x" * 2_000_000, status=201), "too large"),
    ],
)
def test_a_refused_exchange_is_a_gap_that_quotes_no_secret(
    server: LocalServer, tmp_path: Path, reply: Reply, said: str
) -> None:
    server.on(PATH, reply)
    connector = GitHubConnector(settings_of(server.url), {"checkout": (stand_in.REPOSITORY,)})
    collected = asyncio.run(collect_from(connector, request_for(tmp_path, services=("checkout",))))
    (gap,) = collected.missing
    assert said in gap.reason
    assert "internal error" not in gap.reason
    assert "PRIVATE" not in repr((collected, connector.__dict__))


@pytest.mark.parametrize(
    ("app_id", "installation", "key"),
    [
        (None, "34", KEY),
        ("12", None, KEY),
        ("12", "34/../../users", KEY),
        ("12", "34", None),
        ("12", "34", SecretStr("not a key")),
    ],
)
def test_an_app_that_is_not_whole_stops_the_start(
    app_id: str | None, installation: str | None, key: SecretStr | None
) -> None:
    with pytest.raises(SettingsError, match=r"github\."):
        GitHubApp.of(GitHubSettings(app_id=app_id, installation_id=installation, private_key=key))


def test_nothing_but_the_exchange_can_be_sent_with_the_key(server: LocalServer) -> None:
    app = GitHubApp.of(settings_of(server.url))

    for method, path in (
        ("DELETE", PATH),
        ("POST", "/app/installations/35/access_tokens"),
        ("POST", PATH + "?a=1"),
    ):
        with pytest.raises(ConnectorError, match="its token alone"):
            app._exchange_only(httpx.Request(method, server.url + path))
    app._exchange_only(httpx.Request("POST", server.url + PATH))


def test_a_server_that_does_not_answer_gives_no_token(tmp_path: Path) -> None:
    with LocalServer() as server:
        url = server.url
    app = GitHubApp.of(settings_of(url))
    with pytest.raises(ConnectorError, match="no token was had"):
        asyncio.run(app.token(GitHubConnector.usual_limits))
