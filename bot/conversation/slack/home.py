"""Publishing the Home tab: when somebody opens it, when something on it changed, and never too
often."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

from sqlalchemy.exc import SQLAlchemyError

from faultline.analysis.errors import FaultlineError
from faultline.bot.answer.targets.slack.blocks import Block
from faultline.bot.answer.targets.slack.errors import slack_error
from faultline.bot.conversation.slack.click_context import FAILURES, ClickContext
from faultline.bot.conversation.slack.home_view import RECENT, Home, home_view, not_for_you
from faultline.bot.intake.slack_people import Claimed
from faultline.bot.policy.people import SlackPerson, may, refusal
from faultline.bot.runtime.threads import in_store
from faultline.bot.settings import Settings
from faultline.bot.store.suppressed_alerts import Mute
from faultline.bot.store.visibility import Visibility
from faultline.connectors.shared.contract.base import Check

EVERY_S = 5.0
"""One person's tab is published at most this often; what comes in between is one publication
afterwards."""
CHECK_EVERY_S = 600.0
"""The parts are asked whether they work at most this often, however many people look."""
MAX_PEOPLE = 1_000
MUTES_AMONG = 200
"""With several workspaces, a mute is shown in those that got its alert among this many of their
newest investigations."""

AllChecks = Callable[[Settings], Awaitable[Sequence[Check]]]

log = logging.getLogger("faultline.slack")


class HomeTab:
    """The tab of everybody in the workspace."""

    def __init__(
        self, context: ClickContext, all_checks: AllChecks, *, every_s: float = EVERY_S
    ) -> None:
        self._context = context
        self._every_s = every_s
        self._all_checks = all_checks
        self._checks: Sequence[Check] | None = None
        self._check_after = 0.0
        self._checking = asyncio.Lock()
        self._published: OrderedDict[str, float] = OrderedDict()
        self._waiting: set[str] = set()

    async def show(self, claimed: Claimed) -> None:
        """Publish it for one person, now or as soon as that may be done again."""
        user = claimed.id
        if not user or user in self._waiting:
            return
        self._waiting.add(user)
        try:
            await asyncio.sleep(
                max(0.0, self._published.get(user, -math.inf) + self._every_s - time.monotonic())
            )
        finally:
            self._waiting.discard(user)
        self._note(user)
        person, role = await self._context.people.role(claimed)
        if not may(role, "read"):
            await self._send(user, not_for_you(refusal(person, role, "read")))
            return
        await self._publish(person)
        # Publish before the checks, which may take long, and once more with their result.
        if await self._check():
            await self._publish(person)

    async def _publish(self, person: SlackPerson) -> None:
        self._note(person.id)
        try:
            visibility = await self._context.visible_to(person)
            view = home_view(await in_store(self._read, visibility))
        except SQLAlchemyError as error:
            log.warning("slack: the Home tab was not published (%s)", type(error).__name__)
            return
        await self._send(person.id, view)

    def _note(self, user: str) -> None:
        """That it is published for somebody now."""
        self._published[user] = time.monotonic()
        self._published.move_to_end(user)
        # Forget those first whose tab was published longest ago.
        while len(self._published) > MAX_PEOPLE:
            self._published.popitem(last=False)

    async def _send(self, user: str, view: Block) -> None:
        try:
            await self._context.client.views_publish(user_id=user, view=view)
        except FAILURES as error:
            log.warning(
                "slack: the Home tab was not published (%s)", slack_error("views.publish", error)
            )

    async def _check(self) -> bool:
        """Whether the parts were checked again."""
        async with self._checking:
            if time.monotonic() < self._check_after:
                return False
            # Set it first, so that a check that fails is not repeated for everybody who looks.
            self._check_after = time.monotonic() + CHECK_EVERY_S
            try:
                self._checks = await self._all_checks(self._context.settings)
            except FaultlineError as error:
                self._checks = [Check("check", False, str(error))]
            return True

    def _read(self, visibility: Visibility) -> Home:
        context, now = self._context, datetime.now(UTC)
        latest = context.latest(RECENT, visibility)
        return Home(
            now=now,
            latest=latest,
            labels=context.labels.of([i.id for i in latest]),
            waiting=context.store.count("accepted", visibility),
            running=context.store.count("running", visibility),
            checks=self._checks,
            record=context.labels.visible_to(visibility).record(),
            mutes=[] if visibility.teams is not None else self._mutes(now, visibility),
            public_url=context.settings.server.public_url,
        )

    def _mutes(self, now: datetime, visibility: Visibility) -> list[Mute]:
        """The mutes of alerts that come to this workspace."""
        context = self._context
        active = context.mutes.active(now, visibility)
        if not context.has_other_workspaces:
            return active
        fingerprints = {
            investigation.alert.fingerprint for investigation in context.latest(MUTES_AMONG)
        }
        return [mute for mute in active if mute.fingerprint in fingerprints]
