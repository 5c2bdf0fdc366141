"""Ways to log in to servers of one's own: against a real Prometheus with TLS, client certificates
and Basic authentication, and against AWS' published signatures."""

from __future__ import annotations

import asyncio
import datetime
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.auth
import httpx
import pytest
from botocore.credentials import Credentials

from faultline.analysis.errors import SettingsError
from faultline.bot.settings import Settings
from faultline.connectors.registry import CONNECTORS
from faultline.connectors.shared.auth.azure_token import Credential, Tokens
from faultline.connectors.shared.auth.server_access import TOKEN_LIMITS, SignedForAws
from faultline.connectors.shared.contract.base import Check
from faultline.connectors.shared.transport.circuit_breaker import Deadline
from faultline.loopback.bot_process import free_port
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.debian_tools import debian_binary
from tests.own_certificates import OwnAuthority, OwnCertificate

SELF_HOSTED = ("prometheus", "alertmanager", "loki", "tempo", "jaeger", "grafana")
BASIC = "$2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay"
"""bcrypt of "test" (prometheus.io/docs/guides/basic-auth)."""
WEB = """tls_server_config:
  cert_file: {cert}
  key_file: {key}
  client_ca_file: {ca}
  client_auth_type: RequireAndVerifyClientCert
basic_auth_users:
  reader: {basic}
"""


def checked(section: str, **values: Any) -> Check:
    """What the connector's check says with these keys."""
    connector = CONNECTORS[section].configured(Settings.model_validate({section: values}))
    assert connector is not None
    return asyncio.run(connector.check())


def sent_by(asked: Asked) -> httpx.Headers:
    """A request's headers, whose case does not matter."""
    return httpx.Headers(asked.headers)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> OwnAuthority:
    """One that no system trusts."""
    return OwnAuthority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def client(authority: OwnAuthority) -> OwnCertificate:
    """What the bot shows."""
    return authority.issue("faultline")


@pytest.fixture(scope="module")
def guarded(authority: OwnAuthority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Prometheus that wants a client certificate and a password."""
    binary = debian_binary("prometheus", "usr/bin/prometheus")
    folder = tmp_path_factory.mktemp("guarded")
    own = authority.issue("prometheus", "127.0.0.1")
    web = WEB.format(cert=own.cert, key=own.key, ca=authority.cert, basic=BASIC)
    (folder / "web.yml").write_text(web)
    (folder / "prometheus.yml").write_text("global: {scrape_interval: 1h}\n")
    port = free_port()
    command = [
        binary,
        "--config.file=prometheus.yml",
        "--web.config.file=web.yml",
        f"--web.listen-address=127.0.0.1:{port}",
        "--storage.tsdb.path=data",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        _wait_for(port, process, folder / "log")
        yield f"https://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=20)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(400):
        if process.poll() is not None:
            pytest.fail(f"prometheus ended: {log.read_text()[-500:]}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail("prometheus did not listen in 20 s")


def test_a_real_server_takes_our_certificate_and_password_and_refuses_without_either(
    guarded: str, authority: OwnAuthority, client: OwnCertificate, tmp_path: Path
) -> None:
    password = tmp_path / "password"
    password.write_text("test\n")
    whole = {
        "url": guarded,
        "ca_file": authority.cert,
        "client_cert_file": client.cert,
        "client_key_file": client.key,
        "username": "reader",
        "token": "test",
    }
    assert "metrics and alerts can be read" in checked("prometheus", **whole).line
    from_file = {key: value for key, value in whole.items() if key != "token"}
    read = checked("prometheus", **from_file, token_file=password)
    assert "metrics and alerts can be read" in read.line
    assert "401" in checked("prometheus", **whole | {"token": "wrong"}).line
    stranger = {key: value for key, value in whole.items() if not key.startswith("client_")}
    assert "no TLS connection" in checked("prometheus", **stranger).line
    del whole["ca_file"]
    assert "its certificate is not trusted" in checked("prometheus", **whole).line


@pytest.mark.parametrize("section", SELF_HOSTED)
def test_a_token_in_a_file_is_read_again_when_it_changes(
    section: str, server: LocalServer, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    given = {"url": server.url, "token_file": token, "tenant": "acme"}
    connector = CONNECTORS[section].configured(Settings.model_validate({section: given}))
    assert connector is not None
    asyncio.run(connector.check())
    new = tmp_path / "new"
    new.write_text("second")
    # As Kubernetes does it: the file is replaced, not written.
    new.rename(token)
    asyncio.run(connector.check())
    sent = [sent_by(asked)["authorization"] for asked in server.asked]
    assert list(dict.fromkeys(sent)) == ["Bearer first", "Bearer second"]
    assert {sent_by(asked)["x-scope-orgid"] for asked in server.asked} == {"acme"}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"token_file": "/nowhere/token"}, "prometheus.token_file: cannot be read"),
        ({"ca_file": "/nowhere/ca"}, "prometheus.ca_file: cannot be used"),
        ({"client_cert_file": "/nowhere/cert"}, "prometheus.client_cert_file: cannot be used"),
        ({"cloud": "aws"}, "prometheus.aws_region: must be set"),
    ],
)
def test_a_file_or_key_that_is_missing_stops_the_start(values: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError) as error:
        checked("prometheus", url="http://127.0.0.1:9", **values)
    assert str(error.value).startswith(said)


@pytest.mark.parametrize(
    "values",
    [
        {"token": "a", "token_file": "/b"},
        {"token": "a", "cloud": "aws"},
        {"client_key_file": "/b"},
        {"username": "a:b"},
        {"cloud": "oracle"},
    ],
)
def test_ways_that_exclude_each_other_are_refused(values: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="prometheus"):
        Settings.model_validate({"prometheus": {"url": "http://127.0.0.1:9", **values}})


@pytest.mark.parametrize(
    ("url", "signature"),
    [
        # get-vanilla, get-vanilla-query-order-key-case and get-unreserved of AWS' "Signature
        # Version 4 test suite".
        ("/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        (
            "/?Param2=value2&Param1=value1",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        (
            "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
            "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
        ),
    ],
)
def test_requests_are_signed_as_aws_publishes(
    url: str, signature: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = datetime.datetime(2015, 8, 30, 12, 36, tzinfo=datetime.UTC)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda *_, **__: at)
    auth = SignedForAws("us-east-1", "service")
    auth._credentials = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    request = httpx.Request("GET", f"https://example.amazonaws.com{url}")
    auth.sign(request)
    assert request.headers["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        f"SignedHeaders=host;x-amz-date, Signature={signature}"
    )


def test_what_is_signed_is_what_is_sent_also_with_spaces(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-a-role")
    checked("prometheus", url=server.url, cloud="aws", aws_region="eu-west-1")
    (first, *_) = server.asked
    assert "/eu-west-1/aps/aws4_request" in sent_by(first)["authorization"]
    assert sent_by(first)["x-amz-security-token"] == "of-a-role"
    request = httpx.Request("GET", "http://a/", params={"query": 'a + {b="c d"}'})
    SignedForAws("eu-west-1", "aps").sign(request)
    assert request.url.query == b"query=a%20%2B%20%7Bb%3D%22c%20d%22%7D"


def test_a_workload_identity_of_azure_is_exchanged_for_a_token(
    server: LocalServer, tmp_path: Path
) -> None:
    federated = tmp_path / "federated"
    federated.write_text("of-the-pod\n")
    server.on("/directory/oauth2/v2.0/token", Reply({"access_token": "t", "expires_in": 3600}))
    credential = Credential.of_environment(
        {
            "AZURE_AUTHORITY_HOST": f"{server.url}/",
            "AZURE_TENANT_ID": "directory",
            "AZURE_CLIENT_ID": "app",
            "AZURE_FEDERATED_TOKEN_FILE": str(federated),
        }
    )
    tokens = Tokens(credential, TOKEN_LIMITS)
    assert asyncio.run(tokens.token("https://prometheus.example", Deadline.after(10))) == "t"
    form = dict(httpx.QueryParams(server.asked[0].body.decode()))
    assert form == {
        "grant_type": "client_credentials",
        "client_id": "app",
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion": "of-the-pod",
        "scope": "https://prometheus.example/.default",
    }
