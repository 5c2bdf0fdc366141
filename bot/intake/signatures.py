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

from faultline.analysis.errors import FaultlineError

SLACK_WINDOW_S = 300
"""Slack's own limit on the age of a request: docs.slack.dev, "Verifying requests from Slack"."""


class BadSignature(FaultlineError):
    """The sender did not prove who it is. `reason` is for our log; the text of the error is all a
    sender may see."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__("signature")
        self.source = source
        self.reason = reason


def verify_token(source: str, authorization: str | None, tokens: Sequence[SecretStr]) -> None:
    """`Bearer token`, or `Basic` with `user:password`, equal to one of `tokens`.

    Raises BadSignature.
    """
    scheme, _, credentials = (authorization or "").strip().partition(" ")
    credentials = credentials.strip()
    if scheme.lower() == "basic":
        credentials = _decoded(source, credentials)
    elif scheme.lower() != "bearer":
        raise BadSignature(source, "no Bearer or Basic authorization")
    if not any_equal([credentials], usable(tokens)):
        raise BadSignature(source, "the credentials fit no token")


def sign_slack(body: bytes, timestamp: str, secret: str) -> str:
    """The value of `x-slack-signature`: `v0=<hex HMAC-SHA256 of v0:timestamp:body>`."""
    return "v0=" + hmac_sha256(secret, b"v0:" + _bytes(timestamp) + b":" + body)


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
    # `isdigit` alone accepts digits such as "²", on which `int` fails.
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        raise BadSignature("slack", "the timestamp is not a number")
    if abs(now - int(timestamp)) > SLACK_WINDOW_S:
        raise BadSignature("slack", f"the timestamp is more than {SLACK_WINDOW_S} s away")
    expected = [sign_slack(body, timestamp, secret) for secret in usable(secrets)]
    if not any_equal([signature], expected):
        raise BadSignature("slack", "the signature fits no secret")


def usable(secrets: Sequence[SecretStr]) -> list[str]:
    """Without empty secrets, whose signatures anybody could make."""
    values = [secret.get_secret_value() for secret in secrets]
    return [value for value in values if value]


def any_equal(texts: Sequence[str], expected: Iterable[str]) -> bool:
    """Whether one of the given texts is one of the expected ones, in constant time."""
    equal = False
    for expected_text in expected:
        for text in texts:
            # No early return: the time taken must not tell which of them was equal.
            equal |= hmac.compare_digest(_bytes(text), _bytes(expected_text))
    return equal


def hmac_sha256(secret: str, message: bytes) -> str:
    """The HMAC as hexadecimal digits."""
    return hmac.new(_bytes(secret), message, hashlib.sha256).hexdigest()


def _decoded(source: str, credentials: str) -> str:
    try:
        return base64.b64decode(_bytes(credentials), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise BadSignature(source, "the Basic credentials are not base64") from None


def _bytes(text: str) -> bytes:
    # A lone surrogate must fail the comparison, not the encoding.
    return text.encode("utf-8", "surrogatepass")
