"""An authority of our own for vendors on loopback: a certificate that holds, and one that ended
yesterday."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Certificates:
    """Contexts for servers on this machine, and the file of the authority that clients are to
    trust."""

    authority: Path
    valid: ssl.SSLContext
    expired: ssl.SSLContext


def make_certificates(directory: Path, address: str = "127.0.0.1") -> Certificates:
    """Write them below `directory`, for servers at that address."""
    directory.mkdir(parents=True, exist_ok=True)
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "vendors on loopback")])
    builder = _builder(name, name, key, now - 400 * DAY, now + 400 * DAY)
    extension = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    extension = extension.add_extension(usage, critical=True)
    key_identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    signed = extension.add_extension(key_identifier, critical=False).sign(key, hashes.SHA256())
    authority = directory / "authority.pem"
    authority.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    issued = {
        word: _issued(
            directory / f"{word}.pem",
            address,
            name,
            key,
            key_identifier,
            now - 300 * DAY,
            now + days * DAY,
        )
        for word, days in (("valid", 300), ("expired", -1))
    }
    return Certificates(authority, issued["valid"], issued["expired"])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    begins: datetime,
    ends: datetime,
) -> x509.CertificateBuilder:
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
    )
    return (
        made.serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
    )


def _issued(
    path: Path,
    address: str,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    key_identifier: x509.SubjectKeyIdentifier,
    begins: datetime,
    ends: datetime,
) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, address)])
    addresses = x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))])
    builder = _builder(name, issuer, key, begins, ends).add_extension(addresses, critical=False)
    by = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_identifier)
    signed = builder.add_extension(by, critical=False).sign(issuer_key, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(signed.public_bytes(serialization.Encoding.PEM) + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context
