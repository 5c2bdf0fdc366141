"""RSA keys for tests: each process finds the primes of each key once, which takes longer than most
tests."""

from __future__ import annotations

from functools import cache

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa


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
