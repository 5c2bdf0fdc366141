"""Tokens by which a sender proves who it is, signed with keys that their issuer publishes.

A token that is to blame is a BadSignature. Keys that cannot be read now are not the sender's fault:
NotAccepted asks it to send again.
"""

from __future__ import annotations

import time
from typing import TypeVar

import msgspec

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.bot.intake.accepting import NotAccepted
from faultline.bot.intake.signatures import BadSignature
from faultline.bot.runtime.published_keys import PublishedKeys

SKEW_S = 300
"""Clocks may differ by so much, as the Bot Framework says and Microsoft's own libraries allow."""


class SenderClaims(msgspec.Struct):
    """A token's issuer, its audience, and how long it is valid."""

    iss: str
    aud: str
    exp: float
    nbf: float = 0.0


C = TypeVar("C", bound=SenderClaims)


async def sender_claims(source: str, keys: PublishedKeys, token: str, type: type[C]) -> C:
    """What a token says that is signed and valid now; issuer and audience are the caller's to
    check. Raises BadSignature, NotAccepted."""
    try:
        raw_claims = await keys.claims(token)
    except ConnectorError as error:
        if error.call == "token":
            raise BadSignature(source, str(error)) from None
        raise NotAccepted(str(error)) from error
    except FaultlineError as error:
        raise NotAccepted(str(error)) from error
    try:
        claims = msgspec.convert(dict(raw_claims), type)
    except (msgspec.ValidationError, ValueError, OverflowError, RecursionError):
        problem = "the token lacks a claim, or holds one of another type"
        raise BadSignature(source, problem) from None
    now = time.time()
    # Written with `not`, so that NaN is refused as well.
    if not claims.exp > now - SKEW_S:
        raise BadSignature(source, "the token has expired (exp)")
    if not claims.nbf <= now + SKEW_S:
        raise BadSignature(source, "the token is not valid yet (nbf)")
    return claims
