"""Who sent this? Checks on the raw body and headers, before anything is parsed.

Every check takes several secrets, so that one can be rotated without losing an alert, and compares
in constant time. What is wrong with a signature is for our log alone: the sender learns "signature"
and no more.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Sequence

from pydantic import SecretStr

from analysis.errors import FaultlineError

SLACK_WINDOW_S = 300
"""Slack's own limit on the age of a request: docs.slack.dev, "Verifying requests from Slack"."""
MAX_SIGNATURES = 16
"""PagerDuty sends one signature for each active secret; more than this is not PagerDuty."""


class BadSignature(FaultlineError):
    """The sender did not prove who it is. `reason` is for our log; the text of the error is all a
    sender may see."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__("signature")
        self.source = source
        self.reason = reason


def sign_pagerduty(body: bytes, secret: str) -> str:
    """One value of `x-pagerduty-signature`: `v1=<hex HMAC-SHA256 of the body>`."""
    return "v1=" + _hmac(secret, body)


def sign_slack(body: bytes, timestamp: str, secret: str) -> str:
    """The value of `x-slack-signature`: `v0=<hex HMAC-SHA256 of v0:timestamp:body>`."""
    return "v0=" + _hmac(secret, b"v0:" + _bytes(timestamp) + b":" + body)


def verify_pagerduty(body: bytes, header: str | None, secrets: Sequence[SecretStr]) -> None:
    """PagerDuty V3: one of several comma-separated signatures must fit one of our secrets. Raises
    BadSignature."""
    if not header:
        raise BadSignature("pagerduty", "no x-pagerduty-signature header")
    given = [part.strip() for part in header.split(",")]
    if len(given) > MAX_SIGNATURES:
        raise BadSignature("pagerduty", "too many signatures")
    if not _any_equal(given, (sign_pagerduty(body, secret) for secret in _usable(secrets))):
        raise BadSignature("pagerduty", "no signature fits any secret")


def sign_sentry(body: bytes, secret: str) -> str:
    """The value of `sentry-hook-signature`: `<hex HMAC-SHA256 of the body>`."""
    return _hmac(secret, body)


def verify_sentry(body: bytes, header: str | None, secrets: Sequence[SecretStr]) -> None:
    """Sentry: the signature must fit one of our secrets. Raises BadSignature."""
    if not header:
        raise BadSignature("sentry", "no sentry-hook-signature header")
    if not _any_equal([header.strip()], (sign_sentry(body, secret) for secret in _usable(secrets))):
        raise BadSignature("sentry", "the signature fits no secret")


def verify_slack(
    body: bytes,
    timestamp: str | None,
    signature: str | None,
    secrets: Sequence[SecretStr],
    *,
    now: float,
) -> None:
    """Slack: signed over body and timestamp, and at most five minutes away from `now` (epoch
    seconds).

    Raises BadSignature.
    """
    if not timestamp or not signature:
        raise BadSignature("slack", "no signature headers")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        raise BadSignature("slack", "the timestamp is not a number")
    if abs(now - int(timestamp)) > SLACK_WINDOW_S:
        raise BadSignature("slack", f"the timestamp is more than {SLACK_WINDOW_S} s away")
    if not _any_equal(
        [signature], (sign_slack(body, timestamp, secret) for secret in _usable(secrets))
    ):
        raise BadSignature("slack", "the signature fits no secret")


def verify_alertmanager(authorization: str | None, tokens: Sequence[SecretStr]) -> None:
    """Alertmanager: `Bearer token`, or `Basic` with `user:password`, equal to one of `tokens`.
    Raises BadSignature."""
    scheme, _, credentials = (authorization or "").strip().partition(" ")
    credentials = credentials.strip()
    if scheme.lower() == "basic":
        credentials = _decoded(credentials)
    elif scheme.lower() != "bearer":
        raise BadSignature("alertmanager", "no Bearer or Basic authorization")
    if not _any_equal([credentials], _usable(tokens)):
        raise BadSignature("alertmanager", "the credentials fit no token")


def _decoded(credentials: str) -> str:
    try:
        return base64.b64decode(_bytes(credentials), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise BadSignature("alertmanager", "the Basic credentials are not base64") from None


def _usable(secrets: Sequence[SecretStr]) -> list[str]:
    """Without empty secrets, whose signatures anybody could make."""
    return [value for secret in secrets if (value := secret.get_secret_value())]


def _any_equal(given: Sequence[str], expected: Iterable[str]) -> bool:
    pairs = [hmac.compare_digest(_bytes(g), _bytes(e)) for e in expected for g in given]
    return any(pairs)


def _hmac(secret: str, message: bytes) -> str:
    return hmac.new(_bytes(secret), message, hashlib.sha256).hexdigest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
