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
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from faultline.bot.policy.people import Role, is_named, named_role
from faultline.bot.settings.people import LoginSettings, TeamSettings
from faultline.bot.store.visitors import ProviderIdentity

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


# What a provider's claims say about a person, and the role that the settings give them.

TRUE = (True, "true", "1")
"""How providers write a claim that holds."""
MAX_DEPTH = 8


def person_of(claims: Mapping[str, Any], issuer: str, login: LoginSettings) -> ProviderIdentity:
    """Somebody by the claims of the ID token and, where they were asked for, of the userinfo
    endpoint."""
    subject = str(claims["sub"])
    email = verified_email(claims)
    name = _first_text(claims, "name", "preferred_username", "email") or subject
    session = claims.get("sid")
    return ProviderIdentity(
        issuer=issuer,
        subject=subject,
        who=email or f"{name} ({subject})",
        name=name,
        email=email,
        groups=groups_of(claims, login.groups_claim),
        provider_session=session if isinstance(session, str) and session else None,
    )


def verified_email(claims: Mapping[str, Any]) -> str:
    """The address that the provider vouches for, in small letters; empty otherwise.

    Entra sends no `email_verified`, and its `email` may be anything that an administrator of
    another tenant typed; the optional claim `xms_edov` says that the domain's owner is the tenant
    (https://learn.microsoft.com/entra/identity-platform/migrate-off-email-claim-authorization).
    """
    email = claims.get("email")
    if not isinstance(email, str) or email.count("@") != 1 or not email.isprintable():
        return ""
    vouched = claims.get("email_verified", claims.get("xms_edov"))
    return (
        email.strip().lower()
        # In Python 1 == True, so compare the types too.
        if any(type(vouched) is type(true) and vouched == true for true in TRUE)
        else ""
    )


def groups_of(claims: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The groups: the claim of this very name (Auth0's look like addresses), else the one that its
    dots lead to."""
    claim: Any = claims.get(name)
    if claim is None:
        claim = _at_path(claims, name)
    if isinstance(claim, str):
        return (claim,)
    if isinstance(claim, list):
        return tuple(group for group in claim if isinstance(group, str))
    return ()


def _at_path(claims: Mapping[str, Any], name: str) -> object:
    claim: object = claims
    for step in name.split(".", MAX_DEPTH):
        if not isinstance(claim, Mapping):
            return None
        claim = claim.get(step)
    return claim


def role_of(email: str, groups: Collection[str], login: LoginSettings) -> Role | None:
    """The highest role that the settings give; None lets nobody in."""
    # Without a verified address nobody belongs to a domain.
    if login.allowed_domains and not _is_of(email, login.allowed_domains):
        return None
    if (role := named_role(login, groups, [email])) is not None:
        return role
    return None if login.default_role == "none" else login.default_role


def teams_of(
    email: str, groups: Collection[str], teams: Mapping[str, TeamSettings]
) -> frozenset[str]:
    """The teams that name one of somebody's groups, or the address that the provider vouches
    for."""
    return frozenset(name for name, team in teams.items() if is_named(groups, [email], team.groups))


def _is_of(email: str, domains: Collection[str]) -> bool:
    domain = email.rpartition("@")[2]
    return bool(domain) and domain in {d.lower().lstrip("@") for d in domains}


def _first_text(claims: Mapping[str, Any], *names: str) -> str:
    for name in names:
        claim = claims.get(name)
        if isinstance(claim, str) and claim.strip():
            return claim.strip()
    return ""
