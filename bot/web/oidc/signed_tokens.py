"""Tokens that the provider signed: each claim that says whom and what they are for.

Sources: OpenID Connect Core 1.0 section 3.1.3.7 (ID token), Back-Channel Logout 1.0 section 2.6
(logout token), RFC 9068 section 4 (access token).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from faultline.analysis.errors import ConnectorError
from faultline.bot.web.oidc.provider_http import VENDOR

SKEW_S = 120
"""Clocks of provider and bot may differ by so much."""
FRESH_S = 600
"""A token is issued for the login that asked for it: one that is older was meant for another."""
MAX_SUBJECT = 255
"""OpenID Connect Core section 2, `sub`."""
LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"
T = TypeVar("T")


class _IdClaims(msgspec.Struct):
    iss: str
    sub: str
    aud: str | list[str]
    exp: float
    iat: float
    nbf: float | None = None
    nonce: str | None = None
    azp: str | None = None
    at_hash: str | None = None


class _AccessClaims(msgspec.Struct):
    iss: str
    sub: str
    aud: str | list[str]
    exp: float
    nbf: float | None = None
    nonce: str | None = None


class _LogoutClaims(msgspec.Struct):
    iss: str
    aud: str | list[str]
    iat: float
    jti: str
    events: dict[str, Any]
    exp: float | None = None
    sub: str | None = None
    sid: str | None = None


@dataclass(frozen=True)
class ExpectedClaims:
    """What a token must say: who issued it, and for which client."""

    issuer: str
    client_id: str


@dataclass(frozen=True)
class Ended:
    """What a logout token says has ended: a session of the provider's, or all of somebody's."""

    subject: str | None
    provider_session: str | None


def check_id_token(
    claims: Mapping[str, Any],
    expected: ExpectedClaims,
    *,
    nonce: str,
    access_token: str | None,
    now: float,
) -> str:
    """The subject, if every claim is as it must be. Raises ConnectorError that names the one that
    is not."""
    found = _typed(claims, _IdClaims)
    _check_audience(found.iss, found.aud, expected)
    several = not isinstance(found.aud, str) and len(found.aud) > 1
    if found.azp != expected.client_id and (several or found.azp is not None):
        raise _wrong("was issued to another client (azp)")
    if not found.exp > now - SKEW_S:
        raise _wrong("has expired (exp)")
    _check_issued(found.iat, now)
    if found.nbf is not None and not found.nbf <= now + SKEW_S:
        raise _wrong("is not valid yet (nbf)")
    if not hmac.compare_digest((found.nonce or "").encode(), nonce.encode()):
        raise _wrong("belongs to another login (nonce)")
    if found.at_hash is not None and not _is_hash_of(found.at_hash, access_token):
        raise _wrong("does not belong to its access token (at_hash)")
    if not found.sub.strip() or len(found.sub) > MAX_SUBJECT:
        raise _wrong("names nobody (sub)")
    return found.sub


def check_access_token(
    claims: Mapping[str, Any], issuer: str, resource: str, *, now: float
) -> None:
    """Refuse a token that was not issued for this resource. Raises ConnectorError.

    The audience tells an access token from an ID token, which is issued for the client.
    """
    found = _typed(claims, _AccessClaims)
    _check_audience(found.iss, found.aud, ExpectedClaims(issuer, resource))
    if not found.exp > now - SKEW_S:
        raise _wrong("has expired (exp)")
    if found.nbf is not None and not found.nbf <= now + SKEW_S:
        raise _wrong("is not valid yet (nbf)")
    if found.nonce is not None:
        raise _wrong("is no access token (nonce)")
    if not found.sub.strip() or len(found.sub) > MAX_SUBJECT:
        raise _wrong("names nobody (sub)")


def check_logout_token(
    claims: Mapping[str, Any], expected: ExpectedClaims, *, now: float
) -> tuple[Ended, str]:
    """What has ended, and the token's own id. Raises ConnectorError."""
    found = _typed(claims, _LogoutClaims)
    _check_audience(found.iss, found.aud, expected)
    _check_issued(found.iat, now)
    if found.exp is not None and not found.exp > now - SKEW_S:
        raise _wrong("has expired (exp)")
    if not isinstance(found.events.get(LOGOUT_EVENT), dict):
        raise _wrong("is no logout token (events)")
    if "nonce" in claims:
        raise _wrong("is no logout token (nonce)")
    if not found.sub and not found.sid:
        raise _wrong("names neither a subject nor a session")
    return Ended(found.sub or None, found.sid or None), found.jti


def _check_audience(issuer: str, audience: str | list[str], expected: ExpectedClaims) -> None:
    if issuer != expected.issuer:
        raise _wrong("is another issuer's (iss)")
    if expected.client_id not in ([audience] if isinstance(audience, str) else audience):
        raise _wrong("is for another client (aud)")


def _check_issued(issued: float, now: float) -> None:
    if not now - FRESH_S - SKEW_S <= issued <= now + SKEW_S:
        raise _wrong(
            "was not issued now (iat); compare the clocks of this machine and the provider"
        )


def _is_hash_of(given: str, access_token: str | None) -> bool:
    if access_token is None:
        return False
    half = hashlib.sha256(access_token.encode()).digest()[:16]
    return hmac.compare_digest(
        given.rstrip("=").encode(), base64.urlsafe_b64encode(half).rstrip(b"=")
    )


def _typed(claims: Mapping[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(dict(claims), kind)
    except (msgspec.ValidationError, ValueError, OverflowError, RecursionError) as error:
        raise _wrong("lacks a claim, or holds one of another type") from error


def _wrong(what: str) -> ConnectorError:
    return ConnectorError(VENDOR, "token", what)
