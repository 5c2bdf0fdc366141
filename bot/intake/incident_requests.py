"""What people and programs ask for through a page or the API, on the way into the store: the same
request once, each caller within a rate, then the way that alerts take."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy.exc import SQLAlchemyError

from faultline.analysis.errors import SettingsError
from faultline.bot.intake.accepting import Accept, IntakeLimits, NotAccepted, take
from faultline.bot.intake.incident_request import IncidentRequest, arrival_of
from faultline.bot.intake.request_body import Refused
from faultline.bot.policy.people import HOUR, too_many_investigations
from faultline.bot.policy.values import Accepted
from faultline.bot.runtime.threads import in_store
from faultline.bot.settings import Settings
from faultline.bot.store.quotas import PersonActs, is_same_request
from faultline.bot.store.store import Store

KEY_REUSED = (
    "This idempotency key was used for another request. Send a new key, or the same request again."
)


@dataclass(frozen=True)
class Requester:
    """Who asks, by a name that no other has; `most_per_hour` None: as much as they like."""

    who: str
    most_per_hour: int | None


def requester_key(requester: Requester, key: str) -> str:
    """A key as one requester means it: another's key of the same text is another key."""
    # The NUL keeps "a" with the key "bc" apart from "ab" with the key "c".
    phrase = f"{requester.who}\x00{key}"
    return hashlib.sha256(phrase.encode("utf-8", "replace")).hexdigest()[:32]


class IncidentRequests:
    """Takes requests; `accept` is that of the alerts, with the spool behind the store."""

    def __init__(self, settings: Settings, store: Store, accept: Accept) -> None:
        self._settings = settings
        self._engine = store.engine
        self._acts = PersonActs(store.engine)
        self._accept = accept

    async def start(self, request: IncidentRequest, requester: Requester, as_sent: str) -> Accepted:
        """Start an investigation, or find the one of the same key (outcome `duplicate`). A
        request that the spool took (`spooled`) has no known id yet. `as_sent` is what must be the
        same under the same key, because the time that `30m` means differs with each request.

        Raises Refused for what cannot be asked (422) or is too much (429), NotAccepted where the
        request shall be sent again.
        """
        now = datetime.now(UTC)
        try:
            arrival = arrival_of(request, self._settings, now)
        except SettingsError as error:
            raise Refused(422, f"{error}") from None
        await self.refuse_unless_new(f"{request.door} {request.key}", requester, as_sent)
        return await take(self._accept, arrival, within_s=IntakeLimits.accept_within_s)

    async def refuse_unless_new(self, key: str, requester: Requester, as_sent: str) -> None:
        """Count one more request. Raises Refused where the key was used for another one (422), and
        where it is too much (429); NotAccepted where the store cannot tell."""
        try:
            async with asyncio.timeout(IntakeLimits.accept_within_s):
                await self._refuse_unless_new(key, requester, as_sent, datetime.now(UTC))
        except TimeoutError:
            raise NotAccepted("the store did not answer in time") from None
        except SQLAlchemyError as error:
            raise NotAccepted(f"the store cannot be used ({type(error).__name__})") from error

    async def _refuse_unless_new(
        self, key: str, requester: Requester, as_sent: str, now: datetime
    ) -> None:
        most = requester.most_per_hour
        # Check the key first: a refused request does not count against the limit.
        if not await in_store(is_same_request, self._engine, key, as_sent, now):
            raise Refused(422, KEY_REUSED)
        if most is None:
            return
        if not await in_store(self._acts.count, requester.who, "investigate", key, most, HOUR):
            raise Refused(429, too_many_investigations(most))
