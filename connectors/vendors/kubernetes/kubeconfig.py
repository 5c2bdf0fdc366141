"""A cluster as a kubeconfig file has it: its address, its trusted authority, and its user.

kubernetes.io, "kubeconfig (v1)" and "Client Authentication (v1)". Commands that give credentials
(`exec`), as those of EKS, GKE and AKS, are run as kubectl runs them, without a terminal.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import msgspec.yaml

from faultline.analysis.errors import ConnectorError, SettingsError
from faultline.analysis.secrets.redaction import masked
from faultline.connectors.shared.auth.server_access import no_password
from faultline.connectors.shared.vendor_text import plain_url, short
from faultline.connectors.vendors.kubernetes.session import VENDOR, ClusterCredentials, token_in

T = TypeVar("T")

KEY = "kubernetes.kubeconfig"
LARGEST = 4 * 1024 * 1024
RUN_WITHIN_S = 15.0
EARLY = timedelta(minutes=1)
"""Credentials are asked for again that long before they end."""
WITHOUT_END = timedelta(minutes=5)
"""kubectl keeps credentials without an end until they are refused; here they are asked for again
after a while."""
BOT_PREFIX = "FAULTLINE_"
"""Variables that begin so hold the bot's own secrets, which no other program is given."""
INSECURE = (
    "insecure-skip-tls-verify is refused, as whoever answers would be given the cluster's token: "
    "put the cluster's authority into certificate-authority-data (kubectl get configmap "
    "kube-root-ca.crt -o jsonpath='{.data.ca\\.crt}' | base64), and where its certificate is for "
    "another name than the address, that name into tls-server-name"
)
_PROXY = re.compile(r"(?:https?|socks5)://[^\s/?#]")
"""As kubectl takes them."""
CLUSTER_EXTENSION = "client.authentication.k8s.io/exec"


class _Extension(msgspec.Struct):
    name: str = ""
    extension: Any = None


class KubeCluster(msgspec.Struct, rename="kebab"):
    """`clusters[].cluster`."""

    server: str = ""
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None
    extensions: list[_Extension] = []


class ExecVariable(msgspec.Struct):
    """One of `exec.env`."""

    name: str
    value: str = ""


class ExecPlugin(msgspec.Struct, rename="camel"):
    """`users[].user.exec`."""

    command: str
    api_version: str
    args: list[str] | None = None
    env: list[ExecVariable] | None = None
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""


class KubeUser(msgspec.Struct, rename="kebab"):
    """`users[].user`."""

    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    exec: ExecPlugin | None = None


class KubeContext(msgspec.Struct):
    """`contexts[].context`."""

    cluster: str = ""
    user: str = ""
    namespace: str = "default"


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: KubeCluster


class _NamedUser(msgspec.Struct):
    name: str
    user: KubeUser


class _NamedContext(msgspec.Struct):
    name: str
    context: KubeContext


class _Kubeconfig(msgspec.Struct):
    clusters: list[_NamedCluster] = []
    users: list[_NamedUser] = []
    contexts: list[_NamedContext] = []
    current_context: str = msgspec.field(default="", name="current-context")


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct):
    status: _ExecStatus | None = None


@dataclass(frozen=True)
class _PluginCredential:
    """What a command gave: a token, a certificate with its key, or both."""

    status: _ExecStatus
    until: datetime


@dataclass(frozen=True)
class ClusterContext:
    """A context of a person's own kubeconfig."""

    file: Path
    name: str
    namespace: str


def current_context(environ: Mapping[str, str], name: str | None = None) -> ClusterContext | None:
    """The named or current context of the kubeconfig that `kubectl` reads: the first file of
    KUBECONFIG that exists, or ~/.kube/config. None where there is none, or nothing usable in it.

    Raises SettingsError where a name is given and that context cannot be used.
    """
    parts = environ.get("KUBECONFIG", "").split(os.pathsep)
    places = [Path(part) for part in parts if part] or [Path("~/.kube/config").expanduser()]
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        if name is None:
            return None
        raise SettingsError("kubernetes.context", f"there is no kubeconfig with {name!r}")
    try:
        read_kubeconfig(file, name)
        config = _read(file)
    except SettingsError:
        if name is None:
            return None
        raise
    requested_name = name or config.current_context
    kube_context = next(
        context.context for context in config.contexts if context.name == requested_name
    )
    return ClusterContext(file, requested_name, kube_context.namespace)


def read_kubeconfig(path: Path, context: str | None = None) -> KubeconfigAccess:
    """The cluster and user of a context, of the current one without a name. Raises
    SettingsError."""
    config = _read(path)
    requested_context = context or config.current_context
    for named_context in config.contexts:
        if named_context.name == requested_context:
            break
    else:
        context_names = ", ".join(context.name for context in config.contexts) or "none"
        key = "kubernetes.context" if context else KEY
        raise SettingsError(
            key, f"there is no context {requested_context!r} in {path}; there are {context_names}"
        )
    clusters = {named.name: named.cluster for named in config.clusters}
    users = {named.name: named.user for named in config.users}
    cluster = clusters.get(named_context.context.cluster)
    if cluster is None:
        raise SettingsError(KEY, f"the cluster of context {requested_context!r} is not in {path}")
    if cluster.insecure_skip_tls_verify:
        raise SettingsError(KEY, INSECURE)
    if cluster.proxy_url and not _PROXY.match(cluster.proxy_url):
        # It may hold a password, so it is not said.
        raise SettingsError(KEY, "proxy-url must begin with http://, https:// or socks5://")
    user = users.get(named_context.context.user, KubeUser())
    if user.exec is not None and user.exec.interactive_mode == "Always":
        raise SettingsError(
            KEY, f"{user.exec.command} needs a terminal, which the bot does not have"
        )
    return KubeconfigAccess(path.parent, cluster, user)


def _read(path: Path) -> _Kubeconfig:
    try:
        with path.open("rb") as file:
            # A wrong path may lead to a huge file.
            text = file.read(LARGEST)
        return msgspec.yaml.decode(text, type=_Kubeconfig)
    except OSError as error:
        raise SettingsError(KEY, f"cannot be read ({type(error).__name__})") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        # A parser's own words may quote a token.
        raise SettingsError(KEY, f"is not a kubeconfig ({type(error).__name__})") from None


class KubeconfigAccess:
    """One cluster and one user. Relative paths are next to the file."""

    def __init__(self, folder: Path, cluster: KubeCluster, user: KubeUser) -> None:
        self.url = plain_url(cluster.server, VENDOR)
        self._folder = folder
        self._cluster = cluster
        self._user = user
        self._credential: _PluginCredential | None = None
        self._lock = threading.Lock()

    def credentials(self) -> ClusterCredentials:
        """As of now. Blocks; may run a command. Raises SettingsError, ConnectorError."""
        user = self._user
        status = _ExecStatus()
        if user.exec is not None:
            status = self._exec_status(user.exec)
        token = status.token or user.token
        if token is None and user.token_file:
            token = token_in(self._path(user.token_file), KEY)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return ClusterCredentials(headers, self._trust(status), self._cluster.proxy_url or None)

    def _trust(self, status: _ExecStatus) -> ssl.SSLContext | bool:
        cluster, user = self._cluster, self._user
        cert = self._pem(user.client_certificate_data, user.client_certificate)
        key = self._pem(user.client_key_data, user.client_key)
        # A certificate that the command gave replaces the file's.
        if status.client_certificate_data:
            cert = status.client_certificate_data.encode()
            key = (status.client_key_data or "").encode()
        authority = self._pem(cluster.certificate_authority_data, cluster.certificate_authority)
        if cert is None and authority is None and not cluster.tls_server_name:
            return True
        try:
            text = authority.decode("ascii") if authority is not None else None
            context = _trust_in(text, cluster.tls_server_name)
            if cert is not None:
                _show(context, cert, key or b"")
        except (OSError, ssl.SSLError, ValueError) as error:
            problem = f"its certificates cannot be used ({type(error).__name__})"
            raise SettingsError(KEY, problem) from None
        return context

    def _pem(self, data: str | None, file: str | None) -> bytes | None:
        try:
            if data:
                return base64.b64decode(data, validate=True)
            return self._path(file).read_bytes() if file else None
        except (OSError, binascii.Error, ValueError) as error:
            problem = f"a certificate or key cannot be read ({type(error).__name__})"
            raise SettingsError(KEY, problem) from None

    def _path(self, text: str) -> Path:
        return self._folder / text

    def _exec_status(self, plugin: ExecPlugin) -> _ExecStatus:
        # One at a time: a command may take seconds, and its answer serves all that wait.
        with self._lock:
            if self._credential is None or self._credential.until - EARLY < datetime.now(UTC):
                self._credential = self._run(plugin)
            return self._credential.status

    def _run(self, plugin: ExecPlugin) -> _PluginCredential:
        command = plugin.command
        # As kubectl does: a path is relative to the file, a bare name is looked up in PATH.
        if "/" in command:
            command = str(self._path(command))
        name = short(Path(plugin.command).name, 40)
        try:
            ran = subprocess.run(
                [command, *(plugin.args or [])],
                env=self._variables(plugin),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=RUN_WITHIN_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _failed(name, f"gave no answer within {RUN_WITHIN_S:g} s") from None
        except OSError as error:
            hint = f": {short(plugin.install_hint, 120)}" if plugin.install_hint else ""
            raise _failed(name, f"cannot be run ({type(error).__name__}){hint}") from None
        if ran.returncode != 0:
            # A command's complaint may quote a credential.
            complaint = short(masked(ran.stderr[:2_000].decode(errors="replace")), 160)
            raise _failed(name, f"ended with {ran.returncode}: {complaint}")
        return _parse_credential(name, ran.stdout)

    def _variables(self, plugin: ExecPlugin) -> Mapping[str, str]:
        values_by_variable: dict[str, str] = {}
        for variable, value in os.environ.items():
            if not variable.startswith(BOT_PREFIX):
                values_by_variable[variable] = value
        for env_variable in plugin.env or []:
            values_by_variable[env_variable.name] = env_variable.value
        spec: dict[str, Any] = {"interactive": False}
        if plugin.provide_cluster_info:
            spec["cluster"] = self._cluster_info()
        about = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}
        values_by_variable["KUBERNETES_EXEC_INFO"] = json.dumps(about)
        return values_by_variable

    def _cluster_info(self) -> dict[str, Any]:
        info: dict[str, Any] = {"server": self._cluster.server}
        cluster = self._cluster
        authority = self._pem(cluster.certificate_authority_data, cluster.certificate_authority)
        if authority is not None:
            info["certificate-authority-data"] = base64.b64encode(authority).decode()
        if cluster.tls_server_name:
            info["tls-server-name"] = cluster.tls_server_name
        if cluster.proxy_url:
            info["proxy-url"] = cluster.proxy_url
        for extension in cluster.extensions:
            if extension.name == CLUSTER_EXTENSION:
                info["config"] = extension.extension
        return info


def _parse_credential(name: str, printed: bytes) -> _PluginCredential:
    try:
        status = msgspec.json.decode(printed, type=_ExecCredential).status
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _failed(name, "printed no ExecCredential") from error
    if status is None or not (status.token or status.client_certificate_data):
        raise _failed(name, "gave neither a token nor a certificate")
    until = datetime.now(UTC) + WITHOUT_END
    if status.expiration_timestamp:
        try:
            until = datetime.fromisoformat(status.expiration_timestamp)
        except ValueError as error:
            raise _failed(name, "named no time at which its credentials end") from error
        # Python refuses to compare a time without a zone with one that has it.
        if until.tzinfo is None:
            until = until.replace(tzinfo=UTC)
    return _PluginCredential(status, until)


class ServerNameTrust(ssl.SSLContext):
    """Checks a server's certificate for a name that is not that of its address."""

    server_name: str | None = None

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """A connection to the server of that name, whatever the address is."""
        return super().wrap_bio(incoming, outgoing, server_side, self.server_name, session)


def _trust_in(authority: str | None, server_name: str | None) -> ssl.SSLContext:
    """Trust in an authority, in those of the system without one."""
    usual = ssl.create_default_context(cadata=authority)
    if not server_name:
        return usual
    named = ServerNameTrust(ssl.PROTOCOL_TLS_CLIENT)
    named.server_name = server_name
    # create_default_context cannot make this class, so take over the flags that it sets.
    named.verify_flags = usual.verify_flags
    if authority is not None:
        named.load_verify_locations(cadata=authority)
    else:
        named.load_default_certs()
    return named


def _show(context: ssl.SSLContext, cert: bytes, key: bytes) -> None:
    """Load a certificate and its key, which OpenSSL takes from files alone."""
    with tempfile.TemporaryDirectory(prefix="faultline-key-") as folder:
        # A directory of ours alone: nobody else on the machine can open it.
        file = Path(folder) / "both.pem"
        file.write_bytes(cert.rstrip() + b"\n" + key)
        context.load_cert_chain(file, password=no_password)


def _failed(command: str, problem: str) -> ConnectorError:
    return ConnectorError(VENDOR, "credentials", f"{command} {problem}")
