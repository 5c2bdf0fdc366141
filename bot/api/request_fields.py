"""What several operations read of a request."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime

from starlette.requests import Request

from faultline.analysis.errors import SettingsError
from faultline.bot.intake.request_body import Refused
from faultline.bot.intake.since import since_of

_KEY = re.compile(r"[!-~]{1,200}")


def key_of(request: Request) -> str:
    """Its idempotency key, or a new one. Raises Refused."""
    key = request.headers.get("idempotency-key") or uuid.uuid4().hex
    if not _KEY.fullmatch(key):
        raise Refused(422, "Idempotency-Key: 1 to 200 visible ASCII characters")
    return key


def since_time(since: str | None) -> datetime | None:
    """The time that a caller gives, in UTC. Raises Refused."""
    if since is None:
        return None
    try:
        return since_of(since, datetime.now(UTC), UTC, "since")
    except SettingsError as error:
        raise Refused(422, f"{error}") from None
