"""Who sent this? Checks on the raw body and headers, before anything is parsed.

Every check takes several secrets, so that one can be rotated without losing an alert, and compares
in constant time. What is wrong with a signature is for our log alone: the sender learns "signature"
and no more.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from pydantic import SecretStr
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from faultline.analysis.errors import FaultlineError
from faultline.bot.intake.accepting import Ignored, IntakeLimits, NotAccepted
from faultline.bot.policy.values import Accepted
from faultline.bot.runtime.throttle import Throttle, client_address
from faultline.bot.settings import Settings
from faultline.bot.store.changes import ReportedChange

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


# Reading a request's body under limits of size and time, and answering when it cannot be taken.


class Refused(FaultlineError):
    """The request is not taken: an HTTP status and one line that may be shown to the sender."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


async def read_body(request: Request, limits: IntakeLimits) -> bytes:
    """The raw body. Raises Refused with 413 as soon as it is too large, 408 when it takes too
    long."""
    too_large = Refused(413, f"the body is larger than {limits.max_body_bytes} bytes")
    # Refuse by the declared length first. It may be wrong, so count the chunks as well.
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared[:20]) > limits.max_body_bytes:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_within_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limits.max_body_bytes:
                    raise too_large
    except TimeoutError:
        raise Refused(408, f"the body did not arrive within {limits.body_within_s:g} s") from None
    except ClientDisconnect:
        raise Refused(400, "the body ended early") from None
    return bytes(body)


# Responses to senders. They say only what that sender may know.

Handler = Callable[[Request], Awaitable[Response]]
Keep = Callable[[Sequence[ReportedChange]], Awaitable[None]]
"""Keep changes. May raise NotAccepted."""

log = logging.getLogger("faultline.intake")


def taken_response(taken: Sequence[Accepted]) -> Response:
    """202 with the outcome of each alert, and the first investigation among them."""
    alerts = []
    first_id: str | None = None
    for acceptance in taken:
        alerts.append(
            {"outcome": acceptance.outcome, "investigation_id": acceptance.investigation_id}
        )
        first_id = first_id or acceptance.investigation_id
    content = {"outcome": taken[0].outcome, "investigation_id": first_id, "alerts": alerts}
    return JSONResponse(content, status_code=202)


async def changes_response(changes: Sequence[ReportedChange], keep: Keep) -> Response:
    """202 with the ids of the changes, once they are kept. May raise NotAccepted."""
    await keep(changes)
    ids = [change.id for change in changes]
    return JSONResponse({"outcome": "kept", "ids": ids}, status_code=202)


def ignored_response(source: str, ignored: Ignored, status: int = 202) -> Response:
    """For a genuine delivery that starts nothing: with the reason, and not to be sent again."""
    log.info("%s delivery ignored: %s", source, ignored.reason)
    return JSONResponse({"outcome": "ignored", "reason": ignored.reason}, status_code=status)


def watchdog_response() -> Response:
    """For the alert that always fires."""
    return JSONResponse({"outcome": "heard", "investigation_id": None}, status_code=202)


def not_configured(variable: str) -> Handler:
    """A handler for a source whose secret is not set: 404 with the setting to set."""

    async def handle(request: Request) -> Response:
        return PlainTextResponse(f"not configured: set {variable}\n", status_code=404)

    return handle


class FailedSenders:
    """Counts wrong tokens and signatures by address, for every route that senders prove
    themselves at. A right one is never asked about."""

    def __init__(self, settings: Settings) -> None:
        self._throttle = Throttle()
        self._trusted = settings.server.trusted_proxies

    def failed(self, request: Request) -> int:
        """Seconds after which the sender may be wrong again; 0 for the first failures."""
        return self._throttle.failed(client_address(request, self._trusted))


def with_errors_answered(handler: Handler, senders: FailedSenders) -> Handler:
    """The handler, with each of its errors as the status that tells the sender what to do."""

    async def endpoint(request: Request) -> Response:
        try:
            return await handler(request)
        except BadSignature as error:
            if wait := senders.failed(request):
                # Without a line in the log, which a stranger could fill.
                return PlainTextResponse(
                    "signature\n", status_code=429, headers={"retry-after": str(wait)}
                )
            log.warning("%s refused: %s", error.source, error.reason)
            return PlainTextResponse("signature\n", status_code=401)
        except Refused as error:
            log.warning("%s refused: %s", request.url.path, error)
            return PlainTextResponse(f"{error}\n", status_code=error.status)
        except NotAccepted as error:
            log.error("%s not accepted: %s", request.url.path, error)
            return PlainTextResponse("try again\n", status_code=503, headers={"retry-after": "1"})

    return endpoint
