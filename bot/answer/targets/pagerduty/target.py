"""What declares PagerDuty as a reply target.

It does not import PagerDuty's client, because the settings and the store load this file, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Alert
from faultline.bot.answer.foreign_text import safe_url
from faultline.bot.answer.targets.target_type import ReplyTargetType, TargetProblem
from faultline.bot.answer.targets.tickets.target import TicketOffer
from faultline.bot.policy.values import ReplyTo
from faultline.bot.settings import Settings
from faultline.bot.store.follow_ups import FollowUps, wished
from faultline.bot.store.store import Store, StoredInvestigation
from faultline.connectors.shared.rows.named_ids import bare_id, instance_in
from faultline.connectors.vendors.pagerduty import PagerDutySettings

if TYPE_CHECKING:
    from faultline.bot.answer.targets.pagerduty.replies import PagerDutyReplies


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
        return self.instance.name

    def offer(
        self,
        investigation: StoredInvestigation,
        store: Store,
        settings: Settings,
        blamed: str | None,
    ) -> TicketOffer | None:
        """A note on the incident that the chain of investigations began with. An author stands for
        the key, which servers do not hold."""
        section = self.section(settings)
        if section is None or not section.from_email:
            return None
        name = FollowUps(store.engine).first(investigation.id)
        first = investigation if name == investigation.id else store.get(name)
        incident = self.address(first.reply_to, None, settings) if first else None
        if not incident:
            return None
        is_there = self.post_key(name) in store.posts(name)
        wish = wished(
            investigation.reply_to.other_addresses.get(self.target_name), investigation.id
        )
        return TicketOffer(
            self.target_name,
            "PagerDuty note",
            "Update the PagerDuty note" if is_there else "Send to PagerDuty",
            incident,
            f"on incident {bare_id(incident)}" if is_there and wish else "",
            _page_of(incident, section, investigation.alert),
            joins="on incident",
        )

    def problems(self, settings: Settings) -> Iterator[TargetProblem]:
        """A key without an author, or an author without a key."""
        section = self.section(settings)
        if section is None:
            return
        if self.configured(settings) and not section.from_email:
            phrase = "PagerDuty takes no notes without an author"
            yield TargetProblem("wrong", phrase, f"set {self._author}, a user's address")
        if section.from_email and not self.configured(settings):
            phrase = f"{self.target_label} are offered, and this process has no token for them"
            yield TargetProblem("note", phrase, f"set {self.variable('api_token')} for the workers")

    def build(self, settings: Settings, store: Store, *, owner: str) -> PagerDutyReplies:
        """The client, with the REST API key."""
        from faultline.bot.answer.targets.pagerduty.replies import PagerDutyReplies

        return PagerDutyReplies(settings, store, owner=owner)

    async def check(self, settings: Settings) -> str:
        """Whether notes would have an author; the key itself is asked by the connector."""
        section = self.section(settings)
        if section is None or not section.from_email:
            raise FaultlineError(f"PagerDuty notes need {self._author}, a user's address")
        return ""

    @property
    def _author(self) -> str:
        table = f"pagerduty.{self.account}" if self.account else "pagerduty"
        return f"{table}.from_email"


def _page_of(incident: str, pagerduty_settings: PagerDutySettings, alert: Alert) -> str:
    """The incident's page, where the settings or the alert say where that is; else ""."""
    path = f"/incidents/{bare_id(incident)}"
    if pagerduty_settings.web_url:
        return safe_url(f"{pagerduty_settings.web_url}{path}") or ""
    # The alert's own link has the account's subdomain, which no setting names here.
    for link in alert.links:
        if link.url.endswith(path):
            return safe_url(link.url) or ""
    return ""


TARGET = PagerDutyTarget()
