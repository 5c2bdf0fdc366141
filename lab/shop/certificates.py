"""A certificate authority of the shop's own, and the external provider's certificates."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

AUTHORITY = "authority.pem"
VALID, EXPIRED = "valid.pem", "expired.pem"
HOST = "bank.shop"


def write_certificates(room: Path) -> None:
    """The authority, one certificate that is valid, and one that was until yesterday."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    month, day = timedelta(days=30), timedelta(days=1)
    authority = _signed("Shop test authority", key, key, None, now - month, now + month)
    (room / AUTHORITY).write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    for file, until in ((VALID, now + month), (EXPIRED, now - day)):
        private_key = ec.generate_private_key(ec.SECP256R1())
        certificate = _signed(HOST, private_key, key, authority, now - month, until)
        (room / file).write_bytes(
            private_key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )


def _signed(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate | None,
    since: datetime,
    until: datetime,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    is_authority = x509.BasicConstraints(ca=authority is None, path_length=None)
    names = x509.SubjectAlternativeName([x509.DNSName(HOST)])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        # An authority signs itself.
        .issuer_name(authority.subject if authority else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(until)
        .add_extension(is_authority, critical=True)
        .add_extension(names, critical=False)
        .sign(signer, hashes.SHA256())
    )


def server_context(room: Path) -> ssl.SSLContext:
    """For a server with the valid certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # A resumed session would not look at the certificate again.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    present(context, room, expired=False)
    return context


def present(context: ssl.SSLContext, room: Path, expired: bool) -> None:
    """Show this certificate in handshakes from now on."""
    context.load_cert_chain(room / (EXPIRED if expired else VALID))
