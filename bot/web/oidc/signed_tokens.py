"""Tokens that the provider signed: checks of each claim about their recipient and purpose.

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
"""The clocks of provider and bot may differ by this much."""
FRESH_S = 600
"""A token is issued for the login that asked for it. An older one was meant for another login."""
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
    id_claims = _typed(claims, _IdClaims)
    _check_audience(id_claims.iss, id_claims.aud, expected)
    # `azp` may be missing for a single audience; where it is given, it must be this client.
    several = not isinstance(id_claims.aud, str) and len(id_claims.aud) > 1
    if id_claims.azp != expected.client_id and (several or id_claims.azp is not None):
        raise _wrong("was issued to another client (azp)")
    # `not ... >`, so that NaN counts as expired too.
    if not id_claims.exp > now - SKEW_S:
        raise _wrong("has expired (exp)")
    _check_issued(id_claims.iat, now)
    if id_claims.nbf is not None and not id_claims.nbf <= now + SKEW_S:
        raise _wrong("is not valid yet (nbf)")
    if not hmac.compare_digest((id_claims.nonce or "").encode(), nonce.encode()):
        raise _wrong("belongs to another login (nonce)")
    if id_claims.at_hash is not None and not _is_hash_of(id_claims.at_hash, access_token):
        raise _wrong("does not belong to its access token (at_hash)")
    if not id_claims.sub.strip() or len(id_claims.sub) > MAX_SUBJECT:
        raise _wrong("names nobody (sub)")
    return id_claims.sub


def check_access_token(
    claims: Mapping[str, Any], issuer: str, resource: str, *, now: float
) -> None:
    """Refuse a token that was not issued for this resource. Raises ConnectorError.

    The audience tells an access token from an ID token, which is issued for the client.
    """
    access_claims = _typed(claims, _AccessClaims)
    _check_audience(access_claims.iss, access_claims.aud, ExpectedClaims(issuer, resource))
    if not access_claims.exp > now - SKEW_S:
        raise _wrong("has expired (exp)")
    if access_claims.nbf is not None and not access_claims.nbf <= now + SKEW_S:
        raise _wrong("is not valid yet (nbf)")
    # Only an ID token holds a nonce.
    if access_claims.nonce is not None:
        raise _wrong("is no access token (nonce)")
    if not access_claims.sub.strip() or len(access_claims.sub) > MAX_SUBJECT:
        raise _wrong("names nobody (sub)")


def check_logout_token(
    claims: Mapping[str, Any], expected: ExpectedClaims, *, now: float
) -> tuple[Ended, str]:
    """What has ended, and the token's own id. Raises ConnectorError."""
    logout_claims = _typed(claims, _LogoutClaims)
    _check_audience(logout_claims.iss, logout_claims.aud, expected)
    _check_issued(logout_claims.iat, now)
    if logout_claims.exp is not None and not logout_claims.exp > now - SKEW_S:
        raise _wrong("has expired (exp)")
    if not isinstance(logout_claims.events.get(LOGOUT_EVENT), dict):
        raise _wrong("is no logout token (events)")
    # It must hold no nonce, or it could pass for an ID token (section 2.4).
    if "nonce" in claims:
        raise _wrong("is no logout token (nonce)")
    if not logout_claims.sub and not logout_claims.sid:
        raise _wrong("names neither a subject nor a session")
    return Ended(logout_claims.sub or None, logout_claims.sid or None), logout_claims.jti


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


def _is_hash_of(at_hash: str, access_token: str | None) -> bool:
    if access_token is None:
        return False
    # `at_hash` is the left half of the hash (OpenID Connect Core section 3.1.3.6).
    half = hashlib.sha256(access_token.encode()).digest()[:16]
    return hmac.compare_digest(
        at_hash.rstrip("=").encode(), base64.urlsafe_b64encode(half).rstrip(b"=")
    )


def _typed(claims: Mapping[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(dict(claims), kind)
    except (msgspec.ValidationError, ValueError, OverflowError, RecursionError) as error:
        raise _wrong("lacks a claim, or holds one of another type") from error


def _wrong(what: str) -> ConnectorError:
    return ConnectorError(VENDOR, "token", what)
