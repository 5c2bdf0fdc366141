"""A GitHub App's login: a signed claim is exchanged for an installation's token that may only
read.

The exchange is the one POST of this connector. It goes to one path, asks for reading permissions
alone, and nothing else can be sent through it. docs.github.com/apps, "Generating an installation
access token".
"""

from __future__ import annotations

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

from faultline.analysis.errors import BudgetExceeded, ConnectorError, SettingsError
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.circuit_breaker import ByteBudget, Deadline
from faultline.connectors.shared.transport.transport import CALL, Retries, Timeouts, open_client
from faultline.connectors.shared.vendor_text import plain_url, problem_of
from faultline.connectors.vendors.code_hosts import GitHubSettings

VENDOR = "github"
CLAIM_S, CLOCK_SLACK_S = 540, 60
"""A claim holds for at most ten minutes, and begins a minute ago for clocks that differ."""
RENEW_S = 300
"""A token holds for an hour; it is renewed that many seconds before."""
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
TIMEOUTS = Timeouts(connect_s=5.0, read_s=5.0)
"""httpx's own, for an exchange that is done in far less."""


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
    def of(cls, section: GitHubSettings) -> GitHubApp:
        """From settings. Raises SettingsError."""
        for name in ("app_id", "installation_id"):
            value = getattr(section, name) or ""
            if not (value.isascii() and value.replace("-", "").replace(".", "").isalnum()):
                raise SettingsError(
                    f"github.{name}", "must be set with github.private_key, as GitHub shows it"
                )
        key = section.private_key
        try:
            loaded = load_pem_private_key((key.get_secret_value() if key else "").encode(), None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise SettingsError("github.private_key", "is not a private key in PEM form") from None
        if not isinstance(loaded, RSAPrivateKey):
            raise SettingsError("github.private_key", "is not an RSA key")
        api_url = plain_url(section.api_url, VENDOR)
        return cls(api_url, section.app_id or "", section.installation_id or "", loaded)

    @property
    def path(self) -> str:
        """The one path that is posted to."""
        return f"/app/installations/{self.installation_id}/access_tokens"

    async def token(self, limits: Limits) -> str:
        """A token that holds for some minutes at least. Raises ConnectorError."""
        if time.monotonic() < self._until - RENEW_S:
            return self._token
        # Leave most of the time to the collection that needs the token.
        deadline = Deadline.after(min(10.0, limits.deadline_s / 3))
        response = await self._exchange(limits, deadline)
        if response.status_code != 201:
            problem = f"no token was had: {problem_of(response.status_code)}"
            raise ConnectorError(VENDOR, self.path, problem, status=response.status_code)
        try:
            token = msgspec.json.decode(response.content, type=_InstallationToken).token
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise ConnectorError(VENDOR, self.path, "the answer holds no token") from None
        self._token = token
        self._until = time.monotonic() + TOKEN_S
        return token

    async def _exchange(self, limits: Limits, deadline: Deadline) -> httpx.Response:
        headers = {
            "Authorization": f"Bearer {self._claim()}",
            "Accept": "application/vnd.github+json",
            "Content-Type": "application/json",
            "User-Agent": "faultline",
            "Accept-Encoding": "identity",
        }
        body = msgspec.json.encode({"permissions": PERMISSIONS})
        budget = ByteBudget("size of the token's answer", MOST_BYTES)
        try:
            async with open_client(
                VENDOR,
                self.api_url,
                limits,
                headers=headers,
                deadline=deadline,
                budget=budget,
                timeouts=TIMEOUTS,
                retries=Retries(attempts=1),
                allow=self._exchange_only,
            ) as client:
                return await client.post(
                    self.api_url + self.path, content=body, extensions={CALL: self.path}
                )
        except BudgetExceeded:
            # Time and size are one error here: what is left of the bytes tells them apart.
            if budget.left < 0:
                problem = "the answer is too large for a token"
                raise ConnectorError(VENDOR, self.path, problem) from None
            problem = "no token was had (TimeoutError)"
            raise ConnectorError(VENDOR, self.path, problem, retryable=True) from None
        except ConnectorError as error:
            # A refusal stays as it is; only a failed connection may be tried again.
            if not isinstance(error.__cause__, httpx.HTTPError):
                raise
            problem = f"no token was had ({type(error.__cause__).__name__})"
            raise ConnectorError(VENDOR, self.path, problem, retryable=True) from None

    def _claim(self) -> str:
        """A JSON Web Token (RFC 7519) signed with RS256, as GitHub asks for it."""
        now = int(time.time())
        claims = {"iat": now - CLOCK_SLACK_S, "exp": now + CLAIM_S, "iss": self.app_id}
        head = {"alg": "RS256", "typ": "JWT"}
        text = ".".join(_encoded(msgspec.json.encode(part)) for part in (head, claims))
        signature = self.key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{text}.{_encoded(signature)}"

    def _exchange_only(self, request: httpx.Request) -> None:
        if request.method != "POST" or str(request.url) != self.api_url + self.path:
            problem = "an app's key is used to get its token alone"
            raise ConnectorError(VENDOR, request.method, problem)


def _encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
