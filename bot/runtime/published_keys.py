"""Tokens that an issuer signs with keys it publishes: the keys as they change, and what a token
says once one of them signed it.

Sources: RFC 7517 (key sets), RFC 7518 section 3.3 (lengths), RFC 8725 (algorithms are ours to
choose, never the token's). joserfc checks the signatures. The caller checks a token's recipient and
purpose.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey
from joserfc.jws import JWSRegistry

from faultline.analysis.errors import ConnectorError

ALGORITHMS = ("RS256", "PS256", "ES256")
"""All of SHA-256, which OpenID Connect's `at_hash` follows. None that a public key could be misused
with as a shared secret."""
MIN_RSA_BITS = 2048
"""RFC 7518 section 3.3."""
MAX_KEYS = 100
MAX_AGE_S = 3600.0
"""The keys are read again after this time, so that a withdrawn one counts no longer."""
REREADS, REREAD_WITHIN_S = 6, 60.0
"""An unknown key, as after a rotation, makes the keys be read at once, but not more often than
this."""
UNREADABLE = (JoseError, ValueError, TypeError, AttributeError, KeyError, RecursionError)
"""What reading a crafted token may end with."""
PublicKey = RSAKey | ECKey


class KeySet(msgspec.Struct):
    """What an issuer publishes."""

    keys: list[dict[str, Any]]


class _Registry(JWSRegistry):
    """Headers may hold certificates and fields of other standards; what is marked critical is still
    refused."""

    max_header_length = 8_192


class PublishedKeys:
    """The keys of one issuer, which is called `vendor` in errors. `read` asks for them."""

    def __init__(self, vendor: str, read: Callable[[], Awaitable[KeySet]]) -> None:
        self._vendor = vendor
        self._read = read
        self._keys: tuple[float, list[PublicKey]] | None = None
        self._rereads: deque[float] = deque(maxlen=REREADS)
        self._reading = asyncio.Lock()

    async def claims(self, token: str) -> Mapping[str, Any]:
        """What a token says that one of the keys signed. Raises ConnectorError, of the call "token"
        where the token is to blame."""
        # Read the header first: a token signed in another way causes no request for keys.
        key_id = self._key_id(token)
        key = await self._key(key_id)
        try:
            return jwt.decode(token, key, algorithms=list(ALGORITHMS), registry=_registry()).claims
        except UNREADABLE as error:
            raise self._wrong("has a wrong signature") from error

    async def refreshed(self) -> int:
        """Read the keys now; how many could sign. Raises ConnectorError."""
        async with self._reading:
            return len(await self._refreshed())

    def _key_id(self, token: str) -> str | None:
        """The `kid` that the token names; a token that is signed in no way of ours ends here."""
        try:
            header = jws.extract_compact(token.encode("ascii"), registry=_registry()).protected
        except UNREADABLE as error:
            raise self._wrong("cannot be read") from error
        if header.get("alg") not in ALGORITHMS:
            raise self._wrong("is not signed with RS256, PS256 or ES256")
        kid = header.get("kid")
        if kid is not None and not isinstance(kid, str):
            raise self._wrong("cannot be read")
        return kid

    async def _key(self, key_id: str | None) -> PublicKey:
        # One reader at a time: callers that waited use the keys that it read.
        async with self._reading:
            fresh = self._keys is not None and time.monotonic() - self._keys[0] <= MAX_AGE_S
            keys = self._keys[1] if self._keys is not None and fresh else await self._refreshed()
            chosen = _chosen(keys, key_id)
            # Keys that were too old have been read again just now.
            if chosen is None and fresh and self._may_reread():
                chosen = _chosen(await self._refreshed(), key_id)
        if chosen is None:
            raise self._wrong("is signed with a key that the issuer does not publish")
        return chosen

    def _may_reread(self) -> bool:
        now = time.monotonic()
        if len(self._rereads) == REREADS and now - self._rereads[0] < REREAD_WITHIN_S:
            return False
        self._rereads.append(now)
        return True

    async def _refreshed(self) -> list[PublicKey]:
        published = await self._read()
        keys = [key for entry in published.keys[:MAX_KEYS] if (key := _imported(entry)) is not None]
        if not keys:
            problem = "holds no key that could sign (RSA of 2048 bits, or EC)"
            raise ConnectorError(self._vendor, "keys", problem)
        self._keys = (time.monotonic(), keys)
        return keys

    def _wrong(self, what: str) -> ConnectorError:
        return ConnectorError(self._vendor, "token", what)


def _registry() -> JWSRegistry:
    return _Registry(algorithms=list(ALGORITHMS), strict_check_header=False)


def _imported(entry: dict[str, Any]) -> PublicKey | None:
    """A key for signatures; None for others, weak ones, and what cannot be read: the rest of the
    set stands."""
    if entry.get("use", "sig") != "sig":
        return None
    try:
        if entry.get("kty") == "RSA":
            # A base64 character holds 6 bits, so a short key is refused before it is parsed.
            long_enough = len(entry["n"]) * 6 >= MIN_RSA_BITS
            key = RSAKey.import_key(entry) if long_enough else None
            return key if key is not None and key.public_key.key_size >= MIN_RSA_BITS else None
        return ECKey.import_key(entry) if entry.get("kty") == "EC" else None
    except (JoseError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _chosen(keys: list[PublicKey], key_id: str | None) -> PublicKey | None:
    """The key of this name; a token that names none is checked with the only one that there is."""
    if key_id is None:
        return keys[0] if len(keys) == 1 else None
    return next((key for key in keys if key.kid == key_id), None)
