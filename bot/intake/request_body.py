"""Reading a request's body under limits of size and time, and answering when it cannot be taken."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request

from faultline.analysis.errors import FaultlineError
from faultline.bot.intake.accepting import IntakeLimits


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
