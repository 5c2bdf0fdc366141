"""A cluster by a kubeconfig file: tokens, client certificates and commands that give either.

The API server is one with TLS on loopback."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest

from faultline.analysis.errors import SettingsError
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Check
from faultline.connectors.vendors.kubernetes import CONNECTOR
from tests.connectors.connect_proxy import ConnectProxy
from tests.connectors.local_http import LocalServer
from tests.connectors.stand_ins import kubernetes as stand_in
from tests.own_certificates import OwnAuthority, OwnCertificate

PLUGIN = """import json, os, sys
with open(sys.argv[1], "a") as runs:
    runs.write(json.dumps({"info": os.environ["KUBERNETES_EXEC_INFO"], "env": dict(os.environ)}))
    runs.write(chr(10))
print(open(sys.argv[2]).read())
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> OwnAuthority:
    """The cluster's."""
    return OwnAuthority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def person(authority: OwnAuthority) -> OwnCertificate:
    """A certificate that the cluster knows."""
    return authority.issue("reader")


def tls_server(
    authority: OwnAuthority, *, wants_certificate: bool, name: str = "127.0.0.1"
) -> LocalServer:
    own = authority.issue("api", name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.cert, own.key)
    if wants_certificate:
        context.load_verify_locations(authority.cert)
        context.verify_mode = ssl.CERT_REQUIRED
    server = LocalServer()
    server._http.socket = context.wrap_socket(
        server._http.socket, server_side=True, do_handshake_on_connect=False
    )
    stand_in.serve(server)
    return server


@pytest.fixture
def api(authority: OwnAuthority) -> Iterator[LocalServer]:
    """An API server with TLS."""
    with tls_server(authority, wants_certificate=False) as server:
        yield server


@pytest.fixture
def strict(authority: OwnAuthority) -> Iterator[LocalServer]:
    """One that wants a client certificate."""
    with tls_server(authority, wants_certificate=True) as server:
        yield server


def encoded(path: Path) -> str:
    """A file as a kubeconfig holds it."""
    return base64.b64encode(path.read_bytes()).decode()


def kubeconfig(
    folder: Path,
    server: LocalServer,
    authority: OwnAuthority,
    user: dict[str, Any],
    /,
    **of_cluster: Any,
) -> Path:
    """A file with two contexts, of which the current one leads nowhere."""
    url = server.url.replace("http:", "https:")
    cluster = {"server": url, "certificate-authority-data": encoded(authority.cert)}
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    nowhere = {"server": "https://127.0.0.1:9"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [
            {"name": "shop", "cluster": cluster | {"extensions": [extension]} | of_cluster},
            {"name": "nowhere", "cluster": nowhere},
        ],
        "users": [{"name": "reader", "user": user}],
        "contexts": [
            {"name": "shop", "context": {"cluster": "shop", "user": "reader", "namespace": "x"}},
            {"name": "other", "context": {"cluster": "nowhere", "user": "reader"}},
        ],
        "current-context": "other",
    }
    path = folder / "config"
    path.write_bytes(msgspec.yaml.encode(config))
    return path


def connector_of(path: Path, context: str | None = "shop") -> Any:
    tables = stand_in.settings("http://127.0.0.1:9")
    tables["kubernetes"] = {"kubeconfig": path, "context": context}
    connector = CONNECTOR.configured(Settings.model_validate(tables))
    assert connector is not None
    return connector


def checked(path: Path) -> Check:
    return asyncio.run(connector_of(path).check())


def authorizations(server: LocalServer) -> set[str | None]:
    return {httpx.Headers(asked.headers).get("authorization") for asked in server.asked}


def test_the_named_context_says_where_the_cluster_is_and_who_asks(
    api: LocalServer, authority: OwnAuthority, tmp_path: Path
) -> None:
    check = checked(kubeconfig(tmp_path, api, authority, {"token": stand_in.TOKEN}))
    assert check.ok, check.line
    assert authorizations(api) == {f"Bearer {stand_in.TOKEN}"}


def test_the_certificate_may_be_for_the_name_that_the_file_gives(
    authority: OwnAuthority, tmp_path: Path
) -> None:
    user = {"token": stand_in.TOKEN}
    name = "api.shop.example.com"
    with tls_server(authority, wants_certificate=False, name=name) as server:
        named = kubeconfig(tmp_path, server, authority, user, **{"tls-server-name": name})
        check = checked(named)
        assert check.ok, check.line
        # Behind a tunnel the address is not the name that the certificate is for.
        strange = checked(kubeconfig(tmp_path, server, authority, user))
        assert not strange.ok
        assert "its certificate is not trusted" in strange.line
    assert authorizations(server) == {f"Bearer {stand_in.TOKEN}"}


def test_a_cluster_behind_a_proxy_is_asked_through_it(
    api: LocalServer, authority: OwnAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The proxy of the file is for this cluster, whatever holds for other addresses.
    monkeypatch.setenv("NO_PROXY", "*")
    port = urlsplit(api.url).port
    proxy = ConnectProxy(("127.0.0.1", port or 0))
    far = {"server": "https://api.shop.example.com", "proxy-url": proxy.url}
    far |= {"tls-server-name": "127.0.0.1"}
    user = {"token": stand_in.TOKEN}
    check = checked(kubeconfig(tmp_path, api, authority, user, **far))
    proxy.close()
    assert check.ok, check.line
    assert set(proxy.connected) == {"api.shop.example.com:443"}
    assert authorizations(api) == {f"Bearer {stand_in.TOKEN}"}


def test_a_proxy_may_be_one_of_socks_and_nothing_else(
    api: LocalServer, authority: OwnAuthority, tmp_path: Path
) -> None:
    given = {"token": stand_in.TOKEN}
    socks = kubeconfig(tmp_path, api, authority, given, **{"proxy-url": "socks5://127.0.0.1:9"})
    assert not checked(socks).ok
    assert api.asked == []
    other = kubeconfig(tmp_path, api, authority, given, **{"proxy-url": "ftp://user:hush@host"})
    with pytest.raises(SettingsError, match="proxy-url must begin with") as refused:
        checked(other)
    assert "hush" not in str(refused.value)


def test_a_name_that_the_certificate_is_not_for_is_refused(
    api: LocalServer, authority: OwnAuthority, tmp_path: Path
) -> None:
    other = {"tls-server-name": "api.other.example.com"}
    check = checked(kubeconfig(tmp_path, api, authority, {"token": "t"}, **other))
    assert "its certificate is not trusted (Hostname mismatch" in check.line
    assert api.asked == []


def test_a_token_file_beside_the_kubeconfig_is_read_each_time(
    api: LocalServer, authority: OwnAuthority, tmp_path: Path
) -> None:
    connector = connector_of(kubeconfig(tmp_path, api, authority, {"tokenFile": "token"}))
    for token in ("first", "second"):
        (tmp_path / "token").write_text(token)
        asyncio.run(connector.check())
    assert authorizations(api) == {"Bearer first", "Bearer second"}


@pytest.mark.parametrize("inline", [True, False])
def test_a_client_certificate_is_shown(
    strict: LocalServer,
    authority: OwnAuthority,
    person: OwnCertificate,
    tmp_path: Path,
    inline: bool,
) -> None:
    if inline:
        user = {
            "client-certificate-data": encoded(person.cert),
            "client-key-data": encoded(person.key),
        }
    else:
        user = {"client-certificate": str(person.cert), "client-key": str(person.key)}
    check = checked(kubeconfig(tmp_path, strict, authority, user))
    assert check.ok, check.line
    assert authorizations(strict) == {None}
    assert not checked(kubeconfig(tmp_path, strict, authority, {"token": "t"})).ok


class Command:
    """A command as a kubeconfig names it, which notes each of its runs."""

    def __init__(self, folder: Path) -> None:
        self._script = folder / "plugin.py"
        self._script.write_text(PLUGIN)
        self._runs = folder / "runs"
        self._says = folder / "says"

    @property
    def user(self) -> dict[str, Any]:
        """Who asks by it."""
        return {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1beta1",
                "command": sys.executable,
                "args": [str(self._script), str(self._runs), str(self._says)],
                "env": [{"name": "AWS_PROFILE", "value": "prod"}],
                "provideClusterInfo": True,
                "interactiveMode": "IfAvailable",
                "installHint": "install it",
            }
        }

    @property
    def runs(self) -> list[dict[str, Any]]:
        """What it was given, run by run."""
        if not self._runs.exists():
            return []
        return [json.loads(line) for line in self._runs.read_text().splitlines()]

    def says(self, **status: str) -> None:
        """What it prints from now on."""
        kind = {"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential"}
        self._says.write_text(json.dumps({**kind, "spec": {}, "status": status}))


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """One that is not run yet."""
    return Command(tmp_path)


def test_a_command_gives_the_token_and_is_run_again_when_that_ends(
    api: LocalServer,
    authority: OwnAuthority,
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FAULTLINE_SLACK__BOT_TOKEN", "of-the-bot")
    connector = connector_of(kubeconfig(tmp_path, api, authority, command.user))
    soon, later = (datetime.now(UTC) + timedelta(seconds=s) for s in (30, 3600))
    command.says(token="ends-soon", expirationTimestamp=f"{soon:%Y-%m-%dT%H:%M:%SZ}")
    asyncio.run(connector.check())
    command.says(token="ends-late", expirationTimestamp=f"{later:%Y-%m-%dT%H:%M:%SZ}")
    for _ in range(3):
        asyncio.run(connector.check())
    assert authorizations(api) == {"Bearer ends-soon", "Bearer ends-late"}
    first, _ = command.runs
    assert first["env"]["AWS_PROFILE"] == "prod"
    assert "FAULTLINE_SLACK__BOT_TOKEN" not in first["env"]
    info = json.loads(first["info"])
    assert info["apiVersion"] == "client.authentication.k8s.io/v1beta1"
    cluster = info["spec"]["cluster"]
    assert cluster["server"] == api.url.replace("http:", "https:")
    assert cluster["certificate-authority-data"] == encoded(authority.cert)
    assert cluster["config"] == {"audience": "a"}


def test_a_command_may_give_a_certificate(
    strict: LocalServer,
    authority: OwnAuthority,
    person: OwnCertificate,
    command: Command,
    tmp_path: Path,
) -> None:
    cert, key = person.cert.read_text(), person.key.read_text()
    command.says(clientCertificateData=cert, clientKeyData=key)
    check = checked(kubeconfig(tmp_path, strict, authority, command.user))
    assert check.ok, check.line


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"command": "no-such-command"}, "no-such-command cannot be run (FileNotFoundError): inst"),
        ({"command": "false", "args": []}, "false ended with 1"),
        ({"command": "echo", "args": ["{}"]}, "echo gave neither a token nor a certificate"),
        ({"command": "echo", "args": ["hello"]}, "echo printed no ExecCredential"),
    ],
)
def test_a_command_that_fails_is_a_gap_that_says_how(
    api: LocalServer,
    authority: OwnAuthority,
    command: Command,
    tmp_path: Path,
    change: dict[str, Any],
    said: str,
) -> None:
    user = {"exec": command.user["exec"] | change}
    assert said in checked(kubeconfig(tmp_path, api, authority, user)).line


@pytest.mark.parametrize(
    ("text", "context", "said"),
    [
        ("a: [", None, "kubernetes.kubeconfig: is not a kubeconfig"),
        ("[1]", None, "kubernetes.kubeconfig: is not a kubeconfig"),
        ("contexts: []", "prod", "kubernetes.context: there is no context 'prod'"),
        (
            "contexts: [{name: a, context: {cluster: b}}]\ncurrent-context: a",
            None,
            "kubernetes.kubeconfig: the cluster of context 'a' is not in",
        ),
        (
            "contexts: [{name: a, context: {cluster: b}}]\ncurrent-context: a\n"
            "clusters: [{name: b, cluster: {server: 'https://a', insecure-skip-tls-verify: true}}]",
            None,
            "kubernetes.kubeconfig: insecure-skip-tls-verify is refused, as whoever answers",
        ),
    ],
)
def test_what_is_wrong_with_the_file_stops_the_start(
    tmp_path: Path, text: str, context: str | None, said: str
) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(SettingsError) as error:
        connector_of(path, context)
    assert str(error.value).startswith(said)
    assert "\n" not in str(error.value)


def test_an_address_beside_a_kubeconfig_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="url and kubeconfig are both set"):
        Settings.model_validate({"kubernetes": {"url": "https://a", "kubeconfig": "/b"}})
