"""Tokens of Google Cloud: from the metadata server, for a service account's key, and in exchange
for somebody else's token, against a local server that answers as the documents say."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from faultline.analysis.errors import ConnectorError, SettingsError
from faultline.bot.settings import Settings
from faultline.connectors.registry import CONNECTORS
from faultline.connectors.shared.auth.google_token import (
    FILE_VARIABLE,
    GOOGLE_TOKEN,
    SCOPE,
    GoogleToken,
)
from tests.connectors.local_http import LocalServer, Reply

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def sent(auth: GoogleToken, times: int = 1) -> list[str]:
    """The header of that many requests."""

    async def flow() -> list[str]:
        found: list[str] = []
        for _ in range(times):
            request = httpx.Request("GET", "http://a/")
            async for one in auth.async_auth_flow(request):
                found.append(one.headers["authorization"])
        return found

    return asyncio.run(flow())


def service_account(folder: Path, url: str) -> Path:
    """A key as `gcloud iam service-accounts keys create` writes it."""
    pem = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return written(
        folder / "key.json",
        type="service_account",
        project_id="shop-prod",
        private_key_id="k1",
        private_key=pem,
        client_email="faultline@shop-prod.iam.gserviceaccount.com",
        token_uri=f"{url}/token",
    )


def written(path: Path, **values: Any) -> Path:
    """A credentials file."""
    path.write_text(json.dumps(values))
    return path


def test_the_metadata_server_gives_the_token_once(server: LocalServer) -> None:
    server.on(GOOGLE_TOKEN, Reply({"access_token": "of-google", "expires_in": 3600}))
    assert sent(GoogleToken("prometheus", server.url), 2) == ["Bearer of-google"] * 2
    assert [httpx.Headers(a.headers)["metadata-flavor"] for a in server.asked] == ["Google"]


def test_a_key_of_a_service_account_signs_the_claim(server: LocalServer, tmp_path: Path) -> None:
    server.on("/token", Reply({"access_token": "of-the-key", "expires_in": 3599}))
    auth = GoogleToken("google_cloud", server.url, service_account(tmp_path, server.url))
    assert sent(auth, 2) == ["Bearer of-the-key"] * 2
    (asked,) = server.asked
    form = parse_qs(asked.body.decode())
    assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    head, said, signature = form["assertion"][0].split(".")
    KEY.public_key().verify(
        unpacked(signature), f"{head}.{said}".encode(), padding.PKCS1v15(), hashes.SHA256()
    )
    assert json.loads(unpacked(head)) == {"alg": "RS256", "typ": "JWT", "kid": "k1"}
    claim = json.loads(unpacked(said))
    assert claim["iss"] == "faultline@shop-prod.iam.gserviceaccount.com"
    assert claim["aud"] == f"{server.url}/token"
    assert claim["scope"] == SCOPE
    assert claim["exp"] - claim["iat"] == 3600


def unpacked(text: str) -> bytes:
    """What base64url holds, whose padding is left out."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_a_token_of_somebody_else_is_exchanged_and_stands_for_a_service_account(
    server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "token"
    own.write_text("of-the-cluster\n")
    path = written(
        tmp_path / "federation.json",
        type="external_account",
        audience="//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/x",
        subject_token_type="urn:ietf:params:oauth:token-type:jwt",
        token_url=f"{server.url}/v1/token",
        service_account_impersonation_url=f"{server.url}/impersonate:generateAccessToken",
        credential_source={"file": str(own)},
    )
    monkeypatch.setenv(FILE_VARIABLE, str(path))
    federated = {"access_token": "federated", "expires_in": 3600, "token_type": "Bearer"}
    server.on("/v1/token", Reply(federated))
    ends = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    server.on(
        "/impersonate:generateAccessToken",
        Reply({"accessToken": "of-the-account", "expireTime": ends}),
    )
    assert sent(GoogleToken("google_cloud", server.url), 2) == ["Bearer of-the-account"] * 2
    exchange, impersonation = server.asked
    assert parse_qs(exchange.body.decode())["subject_token"] == ["of-the-cluster"]
    assert httpx.Headers(impersonation.headers)["authorization"] == "Bearer federated"


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"type": "authorized_user"}, "must hold a service account's key"),
        ({"type": "external_account"}, "must name a file"),
        ({}, "holds no credentials"),
    ],
)
def test_a_file_that_cannot_be_used_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, str], problem: str
) -> None:
    monkeypatch.setenv(FILE_VARIABLE, str(written(tmp_path / "c.json", **values)))
    tables = {"prometheus": {"url": "http://127.0.0.1:1", "cloud": "google"}}
    with pytest.raises(SettingsError, match=problem):
        CONNECTORS["prometheus"].configured(Settings.model_validate(tables))


def test_a_refusal_names_no_secret(server: LocalServer, tmp_path: Path) -> None:
    server.on("/token", Reply({"error": "invalid_grant", "error_description": "x"}, status=400))
    auth = GoogleToken("google_cloud", server.url, service_account(tmp_path, server.url))
    with pytest.raises(ConnectorError, match="Google gave no token") as raised:
        sent(auth)
    assert raised.value.status == 400
