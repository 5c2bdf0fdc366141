"""What declares PagerDuty as a reply target.

Imports nothing of PagerDuty's client: the settings and the store load this file, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from analysis.errors import FaultlineError
from bot.answer.targets.target_type import ReplyTargetType, TargetProblem
from bot.policy.values import ReplyTo
from bot.settings import Settings
from bot.store.store import Store
from connectors.pagerduty.settings import PagerDutySettings

if TYPE_CHECKING:
    from bot.answer.targets.pagerduty.replies import PagerDutyReplies


class PagerDutyTarget(ReplyTargetType[PagerDutySettings]):
    """One note on the alert's own incident."""

    name = "pagerduty"
    label = "PagerDuty notes"
    settings = PagerDutySettings
    needs = ("api_token",)

    def address(self, reply_to: ReplyTo, service: str | None, settings: Settings) -> str | None:
        """The incident, which only the alert itself can name."""
        return reply_to.pagerduty_incident

    def problems(self, settings: Settings) -> Iterator[TargetProblem]:
        """A key without an author."""
        if self.configured(settings) and not settings.pagerduty.from_email:
            said = "PagerDuty takes no notes without an author"
            yield TargetProblem("wrong", said, "set pagerduty.from_email, a user's address")

    def build(self, settings: Settings, store: Store, *, owner: str) -> PagerDutyReplies:
        """The client, with the REST API key."""
        from bot.answer.targets.pagerduty.replies import PagerDutyReplies

        return PagerDutyReplies(settings, store, owner=owner)

    async def check(self, settings: Settings) -> str:
        """Whether notes would have an author; the key itself is asked by the connector."""
        if not settings.pagerduty.from_email:
            raise FaultlineError("PagerDuty notes need pagerduty.from_email, a user's address")
        return ""


TARGET = PagerDutyTarget()
