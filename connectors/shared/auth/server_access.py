"""How a server is asked: headers, the signature of each request, and the authorities to trust.

Files are read again when they change, because tokens and certificates rotate while the bot runs
(projected tokens of Kubernetes, cert-manager).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import ssl
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from faultline.analysis.errors import ConnectorError, SettingsError
from faultline.connectors.shared.auth.azure_token import Credential, Tokens
from faultline.connectors.shared.auth.google_token import TOKEN_LIMITS, TOKEN_WITHIN_S, GoogleToken
from faultline.connectors.shared.settings.connector_settings import SelfHostedSettings
from faultline.connectors.shared.transport.circuit_breaker import Deadline

LONGEST_TOKEN = 65_536
AZURE_AUDIENCE = "https://prometheus.monitor.azure.com"
"""learn.microsoft.com, "Query Prometheus metrics using the API": the audience of its tokens."""
_REGION_IN_HOST = re.compile(
    r"\.([a-z]{2,4}(?:-[a-z]{2,10}){1,2}-\d{1,2})(?:\.(?:es|aoss))?\.amazonaws\.com"
)


class TrustFiles:
    """Certificates from files: the authorities to trust, and the certificate to present."""

    def __init__(self, section: str, ca: Path | None, cert: Path | None, key: Path | None) -> None:
        self._section = section
        self._ca = ca
        self._cert = cert
        self._key = key
        self._cached_context: tuple[tuple[int, ...], ssl.SSLContext] | None = None

    def context(self) -> ssl.SSLContext:
        """As the files are now. Blocks. Raises SettingsError naming the key."""
        # Compare modification times: rotated certificates must apply without a restart.
        version = tuple(self._changed(path) for path in (self._ca, self._cert, self._key))
        if self._cached_context is None or self._cached_context[0] != version:
            self._cached_context = version, self._made()
        return self._cached_context[1]

    def _changed(self, path: Path | None) -> int:
        try:
            return path.stat().st_mtime_ns if path is not None else 0
        except OSError:
            # Which of the keys it is, loading it tells.
            return -1

    def _made(self) -> ssl.SSLContext:
        if self._ca is None:
            context = httpx.create_ssl_context()
        else:
            try:
                context = ssl.create_default_context(cafile=str(self._ca))
            except (OSError, ssl.SSLError) as error:
                raise _unusable(f"{self._section}.ca_file", error) from None
        if self._cert is not None:
            try:
                context.load_cert_chain(self._cert, self._key, password=no_password)
            except (OSError, ssl.SSLError, ValueError) as error:
                raise _unusable(f"{self._section}.client_cert_file", error) from None
        return context


def no_password() -> str:
    """Without it, OpenSSL would ask on the terminal for the password of an encrypted key."""
    raise ValueError("the key is encrypted")


def _unusable(key: str, error: Exception) -> SettingsError:
    return SettingsError(key, f"cannot be used ({type(error).__name__})")


@dataclass(frozen=True)
class ServerAccess:
    """How a server is asked."""

    headers: Mapping[str, str] = field(default_factory=dict)
    auth: httpx.Auth | None = None
    """Adds to each request what does not stay the same."""
    trust: TrustFiles | None = None
    """Unset: the authorities of the system."""

    async def verify(self) -> ssl.SSLContext | bool:
        """What httpx verifies with. Raises SettingsError."""
        if self.trust is None:
            return True
        return await asyncio.to_thread(self.trust.context)


ANYONE = ServerAccess()
"""Without any credential."""


def bearer(token: str) -> ServerAccess:
    """With a token that stays the same."""
    return ServerAccess({"Authorization": f"Bearer {token}"})


def access_of(hosted_settings: SelfHostedSettings, section: str) -> ServerAccess:
    """As the settings have it. Raises SettingsError naming the key."""
    headers: dict[str, str] = {}
    if hosted_settings.token is not None:
        headers["Authorization"] = authorization(
            hosted_settings.token.get_secret_value(), hosted_settings.username
        )
    if hosted_settings.tenant:
        headers["X-Scope-OrgID"] = hosted_settings.tenant
    trust = None
    if hosted_settings.ca_file is not None or hosted_settings.client_cert_file is not None:
        trust = TrustFiles(
            section,
            hosted_settings.ca_file,
            hosted_settings.client_cert_file,
            hosted_settings.client_key_file,
        )
        # As below: said at the start.
        trust.context()
    return ServerAccess(headers, _auth_of(hosted_settings, section), trust)


def authorization(token: str, username: str | None) -> str:
    """The header's value. With a user name the token is the password of Basic authentication
    (RFC 7617)."""
    if not username:
        return f"Bearer {token}"
    return f"Basic {base64.b64encode(f'{username}:{token}'.encode()).decode()}"


def _auth_of(hosted_settings: SelfHostedSettings, section: str) -> httpx.Auth | None:
    if hosted_settings.token_file is not None:
        token = FileToken(
            hosted_settings.token_file, hosted_settings.username, f"{section}.token_file"
        )
        # A file that is missing stops the start, not the first investigation.
        token.header()
        return token
    if hosted_settings.cloud == "aws":
        match = _REGION_IN_HOST.search(urlsplit(hosted_settings.url or "").netloc)
        region = hosted_settings.aws_region or (match[1] if match else None)
        if region is None:
            raise SettingsError(f"{section}.aws_region", "must be set: the address names no region")
        return SignedForAws(region, hosted_settings.aws_service)
    if hosted_settings.cloud == "google":
        google = GoogleToken(section)
        # A file that cannot be used stops the start.
        google.read()
        return google
    if hosted_settings.cloud == "azure":
        return AzureToken()
    return None


class FileToken(httpx.Auth):
    """A token in a file, read again when the file changes."""

    def __init__(self, path: Path, username: str | None, key: str) -> None:
        self._path = path
        self._username = username
        self._key = key
        self._cached_header: tuple[tuple[int, int, int], str] | None = None

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Add the header. Raises SettingsError where the file holds no token."""
        request.headers["Authorization"] = await asyncio.to_thread(self.header)
        yield request

    def header(self) -> str:
        """The header's value as of now. Blocks. Raises SettingsError."""
        try:
            at = self._path.stat()
            # Kubernetes swaps a symbolic link, so the inode changes even where the time does not.
            version = (at.st_mtime_ns, at.st_ino, at.st_size)
            if self._cached_header is None or self._cached_header[0] != version:
                with self._path.open(encoding="ascii") as file:
                    token = file.read(LONGEST_TOKEN).strip()
                if not token or not token.isprintable():
                    raise SettingsError(self._key, "holds no token")
                self._cached_header = version, authorization(token, self._username)
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(self._key, f"cannot be read ({type(error).__name__})") from None
        return self._cached_header[1]


class SignedForAws(httpx.Auth):
    """Signature Version 4, by botocore, with the credentials that boto3 finds."""

    def __init__(self, region: str, service: str) -> None:
        self._region = region
        self._service = service
        self._credentials: Any = None

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Sign the request. Raises ConnectorError without credentials."""
        await asyncio.to_thread(self.sign, request)
        yield request

    def sign(self, request: httpx.Request) -> None:
        """Add the headers. Blocks: credentials may have to be fetched."""
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError

        # httpx writes a space as "+", which the signature would take for a plus.
        query = request.url.query.replace(b"+", b"%20")
        request.url = request.url.copy_with(query=query or None)
        try:
            credentials = self._load_credentials().get_frozen_credentials()
        except BotoCoreError as error:
            problem = f"no AWS credentials ({type(error).__name__})"
            raise ConnectorError("aws", "credentials", problem) from error
        unsigned = AWSRequest(request.method, str(request.url), data=request.content)
        if self._service == "aoss":
            # OpenSearch Serverless wants to see the digest that is signed.
            digest = hashlib.sha256(request.content).hexdigest()
            unsigned.headers["X-Amz-Content-SHA256"] = digest
        SigV4Auth(credentials, self._service, self._region).add_auth(unsigned)
        for name, value in unsigned.headers.items():
            request.headers[name] = value

    def _load_credentials(self) -> Any:
        import botocore.session

        if self._credentials is None:
            self._credentials = botocore.session.get_session().get_credentials()
        if self._credentials is None:
            raise ConnectorError("aws", "credentials", "no AWS credentials were found")
        return self._credentials


class AzureToken(httpx.Auth):
    """A token of the pod's workload identity, or of the machine's managed identity, unless another
    credential is given."""

    def __init__(
        self, audience: str = AZURE_AUDIENCE, credential: Credential | None = None
    ) -> None:
        self._audience = audience
        self._tokens = Tokens(credential or Credential.of_environment(), TOKEN_LIMITS)

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Add the header. Raises ConnectorError where no token is given."""
        token = await self._tokens.token(self._audience, Deadline.after(TOKEN_WITHIN_S))
        request.headers["Authorization"] = f"Bearer {token}"
        yield request
