"""A GitHub App's way in: a signed claim is exchanged for an installation's token that may only
read.

The exchange is the one POST of this connector. It goes to one path, asks for reading permissions
alone, and nothing else can be sent through it. docs.github.com/apps, "Generating an installation
access token".
"""

from __future__ import annotations

import asyncio
import base64
import time
from dataclasses import dataclass, field

import httpx
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from pydantic import SecretStr

from analysis.errors import ConnectorError, SettingsError
from connectors.budgets import Deadline
from connectors.limits import Limits
from connectors.rate_limiter import rate_limiter_of
from connectors.vendor_text import plain_url, problem_of

VENDOR = "github"
CLAIM_S, CLOCK_SLACK_S = 540, 60
"""A claim holds for at most ten minutes, and begins a minute ago for clocks that differ."""
RENEW_S = 300
"""A token holds for an hour; it is renewed so many seconds before."""
TOKEN_S = 3600
PERMISSIONS = {
    "metadata": "read",
    "contents": "read",
    "deployments": "read",
    "pull_requests": "read",
    "actions": "read",
}
"""All that is asked for, whatever the app may do: the token cannot write."""
MOST_BYTES = 1024 * 1024


class _InstallationToken(msgspec.Struct):
    token: str


@dataclass
class GitHubApp:
    """An installation of an app. One per connector; its token is shared by all collections."""

    api_url: str
    app_id: str
    installation_id: str
    key: RSAPrivateKey = field(repr=False)
    _token: str = field(default="", repr=False)
    _until: float = 0.0

    @classmethod
    def of(
        cls, api_url: str, app_id: str | None, installation_id: str | None, key: SecretStr | None
    ) -> GitHubApp:
        """From settings. Raises SettingsError."""
        for name, value in (("app_id", app_id), ("installation_id", installation_id)):
            if not value or not (
                value.isascii() and value.replace("-", "").replace(".", "").isalnum()
            ):
                raise SettingsError(
                    f"github.{name}", "must be set beside github.private_key, as GitHub shows it"
                )
        try:
            loaded = load_pem_private_key((key.get_secret_value() if key else "").encode(), None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise SettingsError("github.private_key", "is not a private key in PEM form") from None
        if not isinstance(loaded, RSAPrivateKey):
            raise SettingsError("github.private_key", "is not an RSA key")
        return cls(plain_url(api_url, VENDOR), app_id or "", installation_id or "", loaded)

    @property
    def path(self) -> str:
        """The one path that is posted to."""
        return f"/app/installations/{self.installation_id}/access_tokens"

    async def token(self, limits: Limits) -> str:
        """A token that holds for some minutes at least. Raises ConnectorError."""
        if time.monotonic() < self._until - RENEW_S:
            return self._token
        deadline = Deadline.after(min(10.0, limits.deadline_s / 3))
        limiter = rate_limiter_of(VENDOR, self.api_url, limits)
        async with limiter.permit(deadline):
            try:
                async with asyncio.timeout(deadline.remaining):
                    self._token = await self._exchange()
            except (TimeoutError, httpx.HTTPError) as error:
                limiter.breaker.record(failed=True)
                said = f"no token was had ({type(error).__name__})"
                raise ConnectorError(VENDOR, self.path, said, retryable=True) from None
        limiter.breaker.record(failed=False)
        self._until = time.monotonic() + TOKEN_S
        return self._token

    async def _exchange(self) -> str:
        headers = {
            "Authorization": f"Bearer {self._claim()}",
            "Accept": "application/vnd.github+json",
        }
        headers |= {
            "Content-Type": "application/json",
            "User-Agent": "faultline",
            "Accept-Encoding": "identity",
        }
        body = msgspec.json.encode({"permissions": PERMISSIONS})
        hooks = {"request": [self._refuse_all_but_the_exchange]}
        async with (
            httpx.AsyncClient(follow_redirects=False, event_hooks=hooks) as client,
            client.stream(
                "POST", self.api_url + self.path, content=body, headers=headers
            ) as response,
        ):
            if response.status_code != 201:
                said = f"no token was had: {problem_of(response.status_code)}"
                raise ConnectorError(VENDOR, self.path, said, status=response.status_code)
            answer = bytearray()
            async for chunk in response.aiter_raw(65_536):
                answer += chunk
                if len(answer) > MOST_BYTES:
                    raise ConnectorError(VENDOR, self.path, "the answer is too large for a token")
        try:
            return msgspec.json.decode(bytes(answer), type=_InstallationToken).token
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise ConnectorError(VENDOR, self.path, "the answer holds no token") from None

    def _claim(self) -> str:
        """A JSON Web Token (RFC 7519) signed with RS256, as GitHub asks for it."""
        now = int(time.time())
        claims = {"iat": now - CLOCK_SLACK_S, "exp": now + CLAIM_S, "iss": self.app_id}
        head = {"alg": "RS256", "typ": "JWT"}
        said = ".".join(_encoded(msgspec.json.encode(part)) for part in (head, claims))
        return (
            f"{said}.{_encoded(self.key.sign(said.encode(), padding.PKCS1v15(), hashes.SHA256()))}"
        )

    async def _refuse_all_but_the_exchange(self, request: httpx.Request) -> None:
        if request.method != "POST" or str(request.url) != self.api_url + self.path:
            raise ConnectorError(
                VENDOR, request.method, "an app's key is used to get its token alone"
            )


def _encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
