"""Access tokens of Google Cloud, as its own libraries find them: a credentials file, else the
metadata server of the machine or pod.

A file holds the key of a service account (developers.google.com/identity/protocols/oauth2,
"Using OAuth 2.0 for Server to Server Applications") or says how a token of somebody else is
exchanged (workload identity federation: google.aip.dev/auth/4117). Only a token that lies in a
file is exchanged.
"""

from __future__ import annotations

import asyncio
import base64
import os
import time
from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec

from faultline.analysis.errors import ConnectorError, SettingsError
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.circuit_breaker import ByteBudget, Deadline
from faultline.connectors.shared.transport.transport import CALL, Retries, open_client

T = TypeVar("T")

GOOGLE_METADATA = "http://metadata.google.internal"
GOOGLE_TOKEN = "/computeMetadata/v1/instance/service-accounts/default/token"  # noqa: S105
"""docs.cloud.google.com, "Authenticate workloads to Google Cloud APIs using service accounts"; GKE
answers it for a pod's own account."""
FILE_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
TOKEN_URL = "https://oauth2.googleapis.com/token"  # noqa: S105
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
"""Several of the APIs know no narrower one: what may be read is a matter of the account's roles."""
ASSERTION = "urn:ietf:params:oauth:grant-type:jwt-bearer"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105
EARLY_S = 300.0
"""A token is asked for again that long before it ends."""
CLAIM_S = 3600
LONGEST_FILE = 65_536
TOKEN_WITHIN_S = 10.0
TOKEN_LIMITS = Limits(max_bytes=65_536)


class _Format(msgspec.Struct):
    type: str = "text"
    subject_token_field_name: str = "access_token"  # noqa: S105


class _Source(msgspec.Struct):
    file: str = ""
    format: _Format = msgspec.field(default_factory=_Format)


class _Credentials(msgspec.Struct):
    type: str
    client_email: str = ""
    private_key: str = ""
    private_key_id: str = ""
    token_uri: str = TOKEN_URL
    audience: str = ""
    subject_token_type: str = ""
    token_url: str = ""
    service_account_impersonation_url: str | None = None
    credential_source: _Source = msgspec.field(default_factory=_Source)


class _GoogleAnswer(msgspec.Struct):
    access_token: str
    expires_in: float = 0.0


class _ImpersonatedAnswer(msgspec.Struct, rename="camel"):
    access_token: str
    expire_time: datetime


class GoogleToken(httpx.Auth):
    """Puts the token on each request. `file`: instead of what the environment names."""

    def __init__(
        self, section: str, metadata: str = GOOGLE_METADATA, file: Path | None = None
    ) -> None:
        self._section = section
        self._metadata = metadata
        self._file = file
        self._cached_token: tuple[str, float] | None = None

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Add the header. Raises ConnectorError where no token is given."""
        if self._cached_token is None or self._cached_token[1] - EARLY_S < time.monotonic():
            self._cached_token = await self._request_token()
        request.headers["Authorization"] = f"Bearer {self._cached_token[0]}"
        yield request

    def read(self) -> _Credentials | None:
        """The credentials file; None without one. Blocks. Raises SettingsError."""
        named = os.environ.get(FILE_VARIABLE)
        path = self._file or (Path(named) if named else None)
        if path is None:
            return None
        key = f"{self._section}.credentials_file" if self._file else FILE_VARIABLE
        try:
            with path.open("rb") as file:
                # Bound the read: the path may point at anything.
                credentials = msgspec.json.decode(file.read(LONGEST_FILE), type=_Credentials)
        except OSError as error:
            raise SettingsError(key, f"cannot be read ({type(error).__name__})") from None
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise SettingsError(key, "holds no credentials of Google Cloud") from None
        if credentials.type not in ("service_account", "external_account"):
            problem = "must hold a service account's key or an external account's configuration"
            raise SettingsError(key, problem)
        # A source can also name a URL or a program to run; only a file is safe to follow.
        if credentials.type == "external_account" and not credentials.credential_source.file:
            raise SettingsError(key, "must name a file in credential_source")
        return credentials

    async def _request_token(self) -> tuple[str, float]:
        credentials = await asyncio.to_thread(self.read)
        if credentials is None:
            url = f"{self._metadata}{GOOGLE_TOKEN}"
            answer = await self._send("GET", url, _GoogleAnswer)
        elif credentials.type == "service_account":
            claim = await asyncio.to_thread(self._claim, credentials)
            form = {"grant_type": ASSERTION, "assertion": claim}
            answer = await self._send("POST", credentials.token_uri, _GoogleAnswer, form)
        else:
            return await self._federated(credentials)
        return self._usable(answer.access_token), time.monotonic() + answer.expires_in

    async def _federated(self, credentials: _Credentials) -> tuple[str, float]:
        form = {
            "grant_type": EXCHANGE,
            "audience": credentials.audience,
            "scope": SCOPE,
            "requested_token_type": ACCESS_TOKEN,
            "subject_token_type": credentials.subject_token_type,
            "subject_token": await asyncio.to_thread(self._subject, credentials.credential_source),
        }
        answer = await self._send("POST", credentials.token_url, _GoogleAnswer, form)
        token, ends = self._usable(answer.access_token), time.monotonic() + answer.expires_in
        url = credentials.service_account_impersonation_url
        if url is None:
            return token, ends
        json = {"scope": [SCOPE], "lifetime": f"{CLAIM_S}s"}
        impersonation = await self._send("POST", url, _ImpersonatedAnswer, json=json, token=token)
        # IAM Credentials answers a point in time, not a lifetime in seconds.
        lasts = impersonation.expire_time.timestamp() - time.time()
        return self._usable(impersonation.access_token), time.monotonic() + lasts

    def _subject(self, source: _Source) -> str:
        """The token of somebody else, as it is now. Blocks. Raises SettingsError."""
        try:
            text = Path(source.file).read_text(encoding="utf-8")[:LONGEST_FILE].strip()
            if source.format.type == "json":
                named = msgspec.json.decode(text, type=dict[str, Any])
                text = str(named[source.format.subject_token_field_name])
        except (OSError, UnicodeDecodeError, msgspec.DecodeError, KeyError) as error:
            problem = f"names a token that cannot be read ({type(error).__name__})"
            raise SettingsError(FILE_VARIABLE, problem) from None
        return text

    def _claim(self, credentials: _Credentials) -> str:
        """A signed JWT (RFC 7523). Blocks. Raises SettingsError."""
        # Late: the machines that have a metadata server never need it.
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        now = int(time.time())
        head = {"alg": "RS256", "typ": "JWT", "kid": credentials.private_key_id}
        claims = {"iss": credentials.client_email, "scope": SCOPE, "aud": credentials.token_uri}
        lifetime = {"iat": now, "exp": now + CLAIM_S}
        parts = [
            _packed(msgspec.json.encode(segment)) for segment in (head, {**claims, **lifetime})
        ]
        signed = ".".join(parts)
        try:
            key = load_pem_private_key(credentials.private_key.encode(), None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise SettingsError(FILE_VARIABLE, "holds no private key in PEM form") from None
        if not isinstance(key, RSAPrivateKey):
            raise SettingsError(FILE_VARIABLE, "holds a key that is not RSA")
        signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_packed(signature)}"

    def _usable(self, token: str) -> str:
        # The token goes into a header, where a line break would start another header.
        if not token or not token.isascii() or not token.isprintable():
            raise ConnectorError(self._section, "token", "the answer holds no usable token")
        return token

    async def _send(
        self,
        method: str,
        url: str,
        type: type[T],
        form: Mapping[str, str] | None = None,
        *,
        json: Mapping[str, Any] | None = None,
        token: str | None = None,
    ) -> T:
        """The answer of who gives tokens. Nothing else is sent. Raises ConnectorError."""
        is_metadata = method == "GET"
        headers = {"Accept-Encoding": "identity"}
        if is_metadata:
            headers["Metadata-Flavor"] = "Google"
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"

        # Credentials travel in this call, so refuse any other address.
        def only_this(request: httpx.Request) -> None:
            if request.method != method or str(request.url) != url:
                problem = "only a token is asked for"
                raise ConnectorError(self._section, request.method, problem)

        async with open_client(
            self._section,
            self._metadata if is_metadata else url,
            TOKEN_LIMITS,
            headers=headers,
            deadline=Deadline.after(TOKEN_WITHIN_S),
            budget=ByteBudget("size of the token's answer", TOKEN_LIMITS.max_bytes),
            retries=Retries(attempts=2),
            allow=only_this,
            # The metadata server is the machine's own, which no proxy reaches.
            use_proxies=not is_metadata,
        ) as client:
            response = await client.request(
                method, url, data=form, json=json, extensions={CALL: "token"}
            )
        if response.status_code != 200:
            who = "Google's metadata server" if is_metadata else "Google"
            status = response.status_code
            raise ConnectorError(self._section, "token", f"{who} gave no token", status=status)
        try:
            return msgspec.json.decode(response.content, type=type)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConnectorError(self._section, "token", "unexpected response") from error


def _packed(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
