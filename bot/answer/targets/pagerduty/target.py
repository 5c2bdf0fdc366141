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
from connectors.named_ids import instance_in
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
        """The incident, which only the alert itself can name; none of another account."""
        incident = reply_to.pagerduty_incident
        return incident if incident and instance_in(incident) == self.account else None

    @property
    def account(self) -> str:
        """The name of its account; "" for that of `[pagerduty]`."""
        return self.instance.name if self.instance else ""

    def problems(self, settings: Settings) -> Iterator[TargetProblem]:
        """A key without an author."""
        own = self.section(settings)
        if own is not None and self.configured(settings) and not own.from_email:
            said = "PagerDuty takes no notes without an author"
            yield TargetProblem("wrong", said, f"set {self._author}, a user's address")

    def build(self, settings: Settings, store: Store, *, owner: str) -> PagerDutyReplies:
        """The client, with the REST API key."""
        from bot.answer.targets.pagerduty.replies import PagerDutyReplies

        return PagerDutyReplies(settings, store, owner=owner)

    async def check(self, settings: Settings) -> str:
        """Whether notes would have an author; the key itself is asked by the connector."""
        own = self.section(settings)
        if own is None or not own.from_email:
            raise FaultlineError(f"PagerDuty notes need {self._author}, a user's address")
        return ""

    @property
    def _author(self) -> str:
        table = f"pagerduty.{self.account}" if self.account else "pagerduty"
        return f"{table}.from_email"


TARGET = PagerDutyTarget()
