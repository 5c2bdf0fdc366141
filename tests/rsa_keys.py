"""RSA keys for tests: each process finds the primes of each key once, which takes longer than most
tests."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

if TYPE_CHECKING:
    from joserfc.jwk import RSAKey


@cache
def rsa_key(number: int) -> rsa.RSAPrivateKey:
    """The same key for the same number."""
    assert number >= 0
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def rsa_pem(number: int) -> bytes:
    """That key as a file holds it."""
    return rsa_key(number).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


@cache
def signing_key(number: int, name: str) -> RSAKey:
    """That key as tokens are signed with it; `name` is its `kid`."""
    from joserfc.jwk import RSAKey

    return RSAKey.import_key(rsa_pem(number), {"kid": name})
