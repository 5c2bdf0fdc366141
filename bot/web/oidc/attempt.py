"""One attempt to log in: begun in a browser, gone to the provider, and back within ten minutes.

The browser keeps one random secret in a cookie; `state`, `nonce` and the PKCE verifier are derived
from it, so that an answer fits no other browser, no other attempt, and nothing is kept here. Each
attempt has its own cookie: five links opened at once are five logins side by side.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass

LASTS_S = 600
MAX_ATTEMPTS = 5
"""At once in one browser; the oldest makes room for one more."""
MAX_TARGET = 1_000


@dataclass(frozen=True)
class Attempt:
    """An attempt: its public name, its secret, when it began, and the page that it leads to."""

    id: str
    secret: str
    began: int
    target: str

    @property
    def state(self) -> str:
        """Given back by the provider (RFC 6749 section 10.12)."""
        return f"{self.id}.{self._derived('state')}"

    @property
    def nonce(self) -> str:
        """Bound into the ID token."""
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        """PKCE: proves to the provider that the code is ours (RFC 7636); 43 characters."""
        return self._derived("verifier")

    @property
    def challenge(self) -> str:
        """The hash of the verifier, which is all that travels through the browser."""
        return _text(hashlib.sha256(self.verifier.encode()).digest())

    @property
    def cookie(self) -> str:
        """The value of its cookie."""
        return f"{self.secret}.{self.began}.{_text(self.target.encode())}"

    def fits(self, state: str) -> bool:
        """Whether an answer with this state is to this attempt."""
        return hmac.compare_digest(state.encode("utf-8", "replace"), self.state.encode())

    def _derived(self, purpose: str) -> str:
        message = f"faultline login {self.id} {purpose}".encode()
        return _text(hmac.new(self.secret.encode(), message, hashlib.sha256).digest())


def new_attempt(target: str, now: float) -> Attempt:
    """An attempt that begins now."""
    short = target if len(target) <= MAX_TARGET else "/"
    return Attempt(secrets.token_hex(4), secrets.token_urlsafe(32), int(now), short)


def read_attempt(id: str, cookie: str, now: float) -> Attempt | None:
    """The attempt that a cookie holds; None when it holds none, or it began too long ago."""
    secret, _, rest = cookie.partition(".")
    began, _, target = rest.partition(".")
    # 43 base64 characters hold the secret's 256 bits.
    if len(secret) < 43 or not began.isdecimal() or len(began) > 12 or len(target) > 2 * MAX_TARGET:
        return None
    if not now - LASTS_S <= int(began) <= now + 1:
        return None
    try:
        # The cookie holds no padding, and the decoder needs it.
        page = base64.urlsafe_b64decode(target + "=" * (-len(target) % 4)).decode()
    except ValueError:
        return None
    return Attempt(id, secret, int(began), page)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
