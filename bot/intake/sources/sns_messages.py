"""Messages of SNS: did SNS sign this, for a topic of ours? (Amazon SNS developer guide, "Verifying
the signatures of SNS messages")

A message names the certificate it was signed with. It is fetched only from SNS's own host in the
region of a topic that the settings name, so that nobody can make us fetch anything else, and is
looked at before it is trusted.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from faultline.bot.intake.accepting import NotAccepted
from faultline.bot.intake.payload_fields import as_time, as_url, json_object
from faultline.bot.intake.signatures import BadSignature
from faultline.bot.intake.sources.cloudwatch_alarms import SNS

# The certificates that SNS signs with, fetched when a message first names one.
#
# Anybody can post a message that names a certificate, and nothing is known of the sender until the
# certificate is here. So a known certificate is served at once whatever else is under way, each
# address is fetched once for all who wait for it, and unknown ones are fetched a few at a time and
# a bounded number a minute. A message that finds no room is answered 503, and SNS sends it again.

Fetch = Callable[[str], Awaitable[bytes]]
"""Gets a page of at most MOST_BYTES over HTTPS. Raises OSError or httpx.HTTPError."""

MOST_BYTES = 65_536
FETCH_S = 4.0
MOST_CERTIFICATES = 64
MOST_FETCHES = 8
"""At once. With FETCH_S, a host that never answers still lets two fetches a second begin."""
FETCHES_PER_MINUTE = 120
"""Of all certificates together. SNS has a few in each region, and changes them rarely."""
MINUTE_S = 60.0
MAX_FAILED = 1024
FAILED_FOR_S = 30.0
"""A certificate that could not be fetched is not asked for again so soon."""


class SnsCertificates:
    """Those that were fetched, by address. Callers check the address first, and then what is in
    the certificate."""

    def __init__(self, fetch: Fetch, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._clock = clock
        self._certificates: dict[str, x509.Certificate] = {}
        self._failed: dict[str, float] = {}
        self._fetching: dict[str, asyncio.Task[x509.Certificate]] = {}
        self._begun: deque[float] = deque(maxlen=FETCHES_PER_MINUTE)

    async def get(self, url: str) -> x509.Certificate:
        """The certificate. Raises NotAccepted where it cannot be fetched now, BadSignature where
        it is none."""
        certificate = self._certificates.get(url)
        if certificate is not None:
            return certificate
        fetching = self._fetching.get(url)
        if fetching is None:
            self._check_room(url)
            self._begun.append(self._clock())
            fetching = asyncio.create_task(self._load(url))
            self._fetching[url] = fetching
            fetching.add_done_callback(lambda task: self._ended(url, task))
        # One sender who hangs up does not end the fetch for those who wait beside it.
        return await asyncio.shield(fetching)

    def _check_room(self, url: str) -> None:
        now = self._clock()
        if now - self._failed.get(url, -FAILED_FOR_S) < FAILED_FOR_S:
            raise NotAccepted("SNS's certificate could not be fetched a moment ago")
        if len(self._fetching) >= MOST_FETCHES:
            raise NotAccepted(f"{MOST_FETCHES} certificates of SNS are being fetched already")
        # A full deque begins with the oldest fetch that still counts.
        if len(self._begun) == FETCHES_PER_MINUTE and now - self._begun[0] < MINUTE_S:
            raise NotAccepted(f"{FETCHES_PER_MINUTE} certificates of SNS were fetched in a minute")

    async def _load(self, url: str) -> x509.Certificate:
        try:
            certificate = x509.load_pem_x509_certificate(await fetched(self._fetch, url))
        except NotAccepted:
            _keep(self._failed, url, self._clock(), MAX_FAILED)
            raise
        except ValueError:
            _keep(self._failed, url, self._clock(), MAX_FAILED)
            raise BadSignature(SNS, "it is no certificate") from None
        _keep(self._certificates, url, certificate, MOST_CERTIFICATES)
        return certificate

    def _ended(self, url: str, task: asyncio.Task[x509.Certificate]) -> None:
        del self._fetching[url]
        if not task.cancelled():
            # Where nobody waits any more, nobody else would look at the error.
            task.exception()


async def fetched(fetch: Fetch, url: str) -> bytes:
    """The page, within FETCH_S. Raises NotAccepted."""
    try:
        async with asyncio.timeout(FETCH_S):
            return await fetch(url)
    except (TimeoutError, OSError, httpx.HTTPError) as error:
        raise NotAccepted(f"SNS did not respond ({type(error).__name__})") from error


async def fetch_https(url: str) -> bytes:
    """The page at an HTTPS address, which is not to be led elsewhere."""
    async with (
        httpx.AsyncClient(timeout=FETCH_S, follow_redirects=False) as client,
        client.stream("GET", url) as response,
    ):
        if response.status_code != 200:
            raise httpx.HTTPError(f"status {response.status_code}")
        page = bytearray()
        async for chunk in response.aiter_bytes():
            page += chunk
            if len(page) > MOST_BYTES:
                raise httpx.HTTPError("the answer is too long")
        return bytes(page)


def _keep(values_by_url: dict[str, Any], url: str, value: Any, most: int) -> None:
    """Remember, and forget the oldest where there are many."""
    if url not in values_by_url and len(values_by_url) >= most:
        values_by_url.pop(next(iter(values_by_url)))
    values_by_url[url] = value


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
