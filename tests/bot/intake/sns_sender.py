"""SNS's side: messages really signed, by a certificate made here and served on loopback."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.rsa_keys import rsa_key

REGION = "eu-west-1"
TOPIC = f"arn:aws:sns:{REGION}:123456789012:alarms"
PEM = "/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem"
CERT_URL = f"https://sns.{REGION}.amazonaws.com{PEM}"
DAY = timedelta(days=1)


def certificate(
    *,
    names: tuple[str, ...] = ("sns.amazonaws.com",),
    bits: int | None = None,
    start: timedelta = -DAY,
    end: timedelta = DAY,
) -> bytes:
    """A certificate in PEM, valid between two moments from now."""
    now = datetime.now(UTC)
    key = rsa.generate_private_key(65537, bits) if bits else rsa_key(0)
    subject = x509.Name(
        [x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0] if names else "nobody")]
    )
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now + start)
        .not_valid_after(now + end)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM)


@dataclass
class SnsSender:
    """A topic. `server` holds the certificate and takes confirmations."""

    server: LocalServer
    fetched: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.hold(certificate())
        self.server.on("/", lambda asked: Reply(b"<ConfirmSubscriptionResponse/>"))

    def hold(self, pem: bytes, *, status: int = 200) -> None:
        """Serve this as the certificate."""

        def answer(_: Asked) -> Reply:
            return Reply(pem, status=status, headers={"Content-Type": "application/x-pem-file"})

        self.server.on(PEM, answer)

    async def fetch(self, url: str) -> bytes:
        """What goes to SNS's host goes to the server."""
        self.fetched.append(url)
        parts = urlsplit(url)
        async with httpx.AsyncClient() as client:
            answer = await client.get(f"{self.server.url}{parts.path}?{parts.query}")
            answer.raise_for_status()
            return answer.content


def envelope(message: Any, *, kind: str = "Notification", **more: Any) -> dict[str, Any]:
    """An unsigned message."""
    text = message if isinstance(message, str) else json.dumps(message)
    made: dict[str, Any] = {
        "Type": kind,
        "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
        "TopicArn": TOPIC,
        "Message": text,
        "Timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "SignatureVersion": "2",
        "SigningCertURL": CERT_URL,
    }
    if kind != "Notification":
        made["Token"] = "2336412f37"
        made["SubscribeURL"] = (
            f"https://sns.{REGION}.amazonaws.com/"
            f"?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=2336412f37"
        )
    return made | more


def signed(message: dict[str, Any], *, key: int = 0) -> bytes:
    """The body, signed as the developer guide says."""
    names = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
    if message["Type"] != "Notification":
        names = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
    text = "".join(f"{name}\n{message[name]}\n" for name in names if message.get(name) is not None)
    algorithm = hashes.SHA1() if message["SignatureVersion"] == "1" else hashes.SHA256()
    signature = rsa_key(key).sign(text.encode(), padding.PKCS1v15(), algorithm)
    return json.dumps({**message, "Signature": base64.b64encode(signature).decode()}).encode()


def alarm(name: str = "checkout-latency", state: str = "ALARM", **more: Any) -> dict[str, Any]:
    """What an alarm on a metric sends."""
    return {
        "AlarmName": name,
        "AlarmDescription": "p99 of the checkout service",
        "AWSAccountId": "123456789012",
        "NewStateValue": state,
        "NewStateReason": "Threshold Crossed: 1 datapoint [2.5 (21/11/26 09:58:00)] was greater "
        "than the threshold.",
        "StateChangeTime": "2026-11-21T10:00:00.123+0000",
        "Region": "EU (Ireland)",
        "AlarmArn": f"arn:aws:cloudwatch:{REGION}:123456789012:alarm:{name}",
        "OldStateValue": "OK" if state == "ALARM" else "ALARM",
        "Trigger": {
            "MetricName": "TargetResponseTime",
            "Namespace": "AWS/ApplicationELB",
            "StatisticType": "ExtendedStatistic",
            "ExtendedStatistic": "p99",
            "Dimensions": [{"value": "targetgroup/checkout/1", "name": "TargetGroup"}],
            "Threshold": 1.0,
        },
    } | more
