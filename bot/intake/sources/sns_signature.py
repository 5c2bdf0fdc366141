"""Did SNS sign this, for a topic of ours? (Amazon SNS developer guide, "Verifying the signatures of
SNS messages")

A message names the certificate it was signed with. It is fetched only from SNS's own host in the
region of a topic that the settings name, so that nobody can make us fetch anything else, and is
looked at before it is trusted.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from faultline.bot.intake.payload_fields import as_time, as_url, json_object
from faultline.bot.intake.signatures import BadSignature
from faultline.bot.intake.sources.cloudwatch_alarms import SNS
from faultline.bot.intake.sources.sns_certificates import Fetch, SnsCertificates, fetched

OLDEST = timedelta(hours=1)
"""SNS repeats a delivery for an hour at the longest (developer guide, "Message delivery retries",
HTTP/S)."""
AHEAD = timedelta(minutes=5)
LEAST_KEY_BITS = 2048
_TOPIC = re.compile(r"arn:aws[a-z-]*:sns:([a-z0-9-]{1,30}):\d{12}:[\w.-]{1,260}")
_PEM_PATH = re.compile(r"/SimpleNotificationService-[0-9a-f]{32}\.pem")
"""As in every certificate's address that AWS publishes. What follows the path must be nothing, so
that one certificate has one address."""
_OF_CONFIRMATIONS = (
    "Message",
    "MessageId",
    "SubscribeURL",
    "Timestamp",
    "Token",
    "TopicArn",
    "Type",
)
_SIGNED: Mapping[str, tuple[str, ...]] = {
    "Notification": ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"),
    "SubscriptionConfirmation": _OF_CONFIRMATIONS,
    "UnsubscribeConfirmation": _OF_CONFIRMATIONS,
}
"""The fields that are signed, in the order in which they are; a Subject only where there is one."""
# By `SignatureVersion`. A topic has version 1 unless its owner sets 2.
_HASHES: Mapping[str, Callable[[], hashes.HashAlgorithm]] = {"1": hashes.SHA1, "2": hashes.SHA256}


@dataclass(frozen=True)
class SnsMessage:
    """A message whose signature holds."""

    type: str
    id: str
    topic: str
    region: str
    text: str
    subscribe_url: str
    sent_at: datetime


class SnsVerifier:
    """Checks messages of some topics; keeps the certificates it has seen."""

    def __init__(self, topics: Sequence[str], fetch: Fetch) -> None:
        self._topics = frozenset(topics)
        self._fetch = fetch
        self._certificates = SnsCertificates(fetch)

    async def verify(self, body: bytes, *, now: datetime) -> SnsMessage:
        """The message. Raises BadSignature, and NotAccepted when the certificate cannot be fetched
        now."""
        envelope = json_object(body)
        if envelope is None:
            raise BadSignature(SNS, "the body is not a JSON object")
        kind, topic = _text(envelope, "Type"), _text(envelope, "TopicArn")
        arn = _TOPIC.fullmatch(topic)
        if topic not in self._topics or arn is None:
            raise BadSignature(SNS, "the topic is not one of aws.sns_topics")
        if kind not in _SIGNED:
            raise BadSignature(SNS, "the type is none that SNS sends")
        region = arn[1]
        sent_at = as_time(_text(envelope, "Timestamp"))
        if sent_at is None or not now - OLDEST <= sent_at <= now + AHEAD:
            raise BadSignature(SNS, "the time is more than an hour away")
        url = _text(envelope, "SigningCertURL")
        # Before anything is fetched: the address is the sender's word.
        check_certificate_url(url, region)
        certificate = await self._certificates.get(url)
        check_certificate(certificate, region, now)
        signed = _signed_text(envelope, kind)
        algorithm = _HASHES.get(_text(envelope, "SignatureVersion"))
        if algorithm is None:
            raise BadSignature(SNS, "the signature's version is neither 1 nor 2")
        key = certificate.public_key()
        # `check_certificate` refuses any other key.
        assert isinstance(key, rsa.RSAPublicKey)
        try:
            signature = base64.b64decode(_text(envelope, "Signature"), validate=True)
            key.verify(signature, signed, padding.PKCS1v15(), algorithm())
        except (binascii.Error, ValueError):
            raise BadSignature(SNS, "the signature is not base64") from None
        except InvalidSignature:
            raise BadSignature(SNS, "the signature does not fit") from None
        return SnsMessage(
            type=kind,
            id=_text(envelope, "MessageId"),
            topic=topic,
            region=region,
            text=_text(envelope, "Message"),
            subscribe_url=_text(envelope, "SubscribeURL"),
            sent_at=sent_at,
        )

    async def confirm(self, message: SnsMessage) -> None:
        """Visit the address that confirms a subscription. Raises BadSignature, NotAccepted."""
        check_host(message.subscribe_url, message.region)
        parts = urlsplit(message.subscribe_url)
        query = dict(httpx.QueryParams(parts.query).multi_items())
        # Other actions of SNS, and other topics, have addresses on the same host.
        if query.get("Action") != "ConfirmSubscription" or query.get("TopicArn") != message.topic:
            raise BadSignature(SNS, "the address to visit confirms nothing of this topic")
        await fetched(self._fetch, message.subscribe_url)


def check_host(url: str, region: str) -> None:
    """Raise BadSignature unless the address is SNS's own in that region, over HTTPS."""
    parts = urlsplit(as_url(url))
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    if (parts.scheme, parts.netloc) != ("https", f"sns.{region}.{suffix}"):
        raise BadSignature(SNS, "an address is not SNS's in the topic's region")


def check_certificate_url(url: str, region: str) -> None:
    """Raise BadSignature unless one of SNS's certificates lies there."""
    check_host(url, region)
    parts = urlsplit(url)
    if url != f"https://{parts.netloc}{parts.path}" or not _PEM_PATH.fullmatch(parts.path):
        raise BadSignature(SNS, "the certificate's address is none of SNS's")


def check_certificate(certificate: x509.Certificate, region: str, now: datetime) -> None:
    """Raise BadSignature unless the certificate is valid now, belongs to SNS and holds a key that
    can sign."""
    if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
        raise BadSignature(SNS, "the certificate is not valid now")
    if not _names(certificate) & certificate_names(region):
        raise BadSignature(SNS, "the certificate is not SNS's")
    key = certificate.public_key()
    if not isinstance(key, rsa.RSAPublicKey) or key.key_size < LEAST_KEY_BITS:
        raise BadSignature(SNS, "the certificate's key is not one that SNS has")


def certificate_names(region: str) -> frozenset[str]:
    """Names of SNS's signing certificates in a region (aws-sdk-java-v2, sns-message-manager,
    SigningCertCommonName)."""
    if region.startswith("cn-"):
        return frozenset({f"sns-{region}.amazonaws.com.cn"})
    if region.startswith("us-gov-"):
        return frozenset({"sns-us-gov-west-1.amazonaws.com"})
    return frozenset({"sns.amazonaws.com", f"sns-signing.{region}.amazonaws.com"})


def _names(certificate: x509.Certificate) -> set[str]:
    """The names in the alternative name extension; the common name where there is none (RFC 6125,
    6.4.4)."""
    try:
        named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return set(named.get_values_for_type(x509.DNSName))
    except x509.ExtensionNotFound:
        common = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        return {str(attribute.value) for attribute in common}
    except ValueError:
        return set()


def _signed_text(envelope: Mapping[str, Any], kind: str) -> bytes:
    lines = []
    for name in _SIGNED[kind]:
        if name == "Subject" and envelope.get(name) is None:
            continue
        lines += [name, _text(envelope, name)]
    # A lone surrogate must fail the signature, not the encoding.
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


def _text(envelope: Mapping[str, Any], name: str) -> str:
    value = envelope.get(name)
    return value if isinstance(value, str) else ""
