"""PagerDuty as a reply target: one note per investigation, written once, amended in place, and a
short note on each incident whose alert joined."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from faultline.analysis.errors import ConnectorError
from faultline.bot.answer.targets.pagerduty.calls import (
    INCIDENT_ID,
    VENDOR,
    PagerDutyCalls,
    field_values,
    pace_of,
)
from faultline.bot.answer.targets.pagerduty.note import (
    closing_note_text,
    failed_note_text,
    joined_note_text,
    note_text,
)
from faultline.bot.answer.targets.pagerduty.target import TARGET
from faultline.bot.answer.targets.posting import LEASE, post_once
from faultline.bot.runtime.threads import in_store
from faultline.bot.settings import Settings
from faultline.bot.store.follow_ups import TicketRequests, Wish, wished
from faultline.bot.store.store import NO_POST, GroupedAlert, Store, StoredInvestigation
from faultline.connectors.shared.rows.named_ids import bare_id
from faultline.connectors.vendors.pagerduty import ACCOUNT_LABEL

if TYPE_CHECKING:
    from faultline.bot.answer.outcome import Outcome

FAILURES_IN_A_ROW = 3
"""Of notes on incidents that joined. After more it is PagerDuty that fails, not an incident."""
KEY_REFUSED = (401, 402, 403)

log = logging.getLogger("faultline.pagerduty")


class PagerDutyReplies:
    """Writes notes. Every failure is one ConnectorError that says whether to try again. Of several
    accounts it writes to the one that its settings were made for."""

    def __init__(
        self, settings: Settings, store: Store, *, owner: str, lease: timedelta = LEASE
    ) -> None:
        self._settings = settings
        self._store = store
        self._post_once = partial(post_once, store, owner=owner, lease=lease)
        self._target = TARGET.scoped_to(settings)
        self._pace = pace_of(self._target.target_name, settings.pagerduty.api_url)
        self._calls = PagerDutyCalls(settings.pagerduty, self._pace)

    @property
    def name(self) -> str:
        """`pagerduty`, with the account where there are several."""
        return self._target.target_name

    def expects_answer(self, investigation: StoredInvestigation) -> bool:
        """Whether there is a key, and the alert has an incident, one of this account joined, or a
        person asked for a note."""
        if not self._target.configured(self._settings):
            return False
        if self._wish(investigation) is not None:
            return True
        return bool(self._noted_incident(investigation) or self._joined(investigation))

    async def announce(self, investigation: StoredInvestigation) -> None:
        """Nothing: a note that says nothing yet would only be noise in the incident."""

    async def preview(self, outcome: Outcome) -> None:
        """Nothing: the note is written once, with the final answer."""

    async def answer(self, outcome: Outcome) -> None:
        """Write the note, or amend the one that is there; then the custom fields. Nothing where
        only incidents that joined are of this account.

        The incident's state is asked right before: of one that was resolved meanwhile there is only
        a short note to close with, unless a person asked for the answer, and of one that was merged
        into another that other gets the note.
        """
        investigation, wish = outcome.investigation, self._wish(outcome.investigation)
        if investigation.status == "joined":
            # The other investigation points to its answer from the incident of each alert.
            return
        if wish is not None:
            # An incident has one note: a further answer amends that of the first.
            reply_to = replace(investigation.reply_to, pagerduty_incident=wish.about)
            investigation = replace(investigation, id=wish.first, reply_to=reply_to)
        if not self._noted_incident(investigation) and self._joined(investigation):
            return
        incident = await self._calls.request(
            self._calls.standing, self._required_incident(investigation)
        )
        if incident.resolved and wish is None:
            await self._close(outcome, incident.id)
            return
        text = self._text(outcome, investigation)
        key = self._key(investigation, incident.id, self._required_incident(investigation))
        stands = key in await in_store(self._store.posts, investigation.id)
        await self.write(investigation, text, incident=incident.id)
        await self._fill_fields(outcome, incident.id)
        if wish is not None and not stands:
            # Other messages say that it is there.
            made = TicketRequests(self._store.engine).made
            await in_store(made, outcome.investigation.id)

    async def write(
        self,
        investigation: StoredInvestigation,
        text: str,
        *,
        incident: str = "",
        amend: bool = True,
    ) -> str:
        """The id of the investigation's note on the incident (its own unless named), once its
        content is `text`."""
        noted_incident = self._noted_incident(investigation)
        incident = incident or self._required_incident(investigation)
        path = f"/incidents/{incident}/notes"
        written: list[str] = []

        async def find() -> str | None:
            return await self._calls.request(self._calls.find, path, investigation.id)

        async def send() -> str:
            written.append(await self._calls.request(self._calls.create, path, text))
            return written[-1]

        key = self._key(investigation, incident, noted_incident)
        note_id = await self._post_once(key, investigation.id, find=find, send=send)
        # A note that this call has written holds the text already.
        if amend and note_id not in written:
            await self._calls.request(self._calls.amend, path, note_id, text)
        return note_id

    def _key(self, investigation: StoredInvestigation, incident: str, noted_incident: str) -> str:
        """The key under which a note is remembered. A note on an incident other than the
        investigation's own has a separate key."""
        key = self._target.post_key(investigation.id)
        return key if incident == noted_incident else f"{key}:{incident}"

    def _wish(self, investigation: StoredInvestigation) -> Wish | None:
        """What a person asked for; its `about` is the incident."""
        address = investigation.reply_to.other_addresses.get(self.name)
        return wished(address, investigation.id)

    def _text(self, outcome: Outcome, investigation: StoredInvestigation) -> str:
        """The answer, in the note of this investigation."""
        answer, url = outcome.answer, self._page(outcome)
        if answer is None:
            return failed_note_text(investigation, _reason(investigation), url)
        return note_text(investigation, answer.view(investigation.alert), url)

    async def _close(self, outcome: Outcome, incident: str) -> None:
        """One short note, where there is something to say and no note of ours stands already."""
        investigation, answer = outcome.investigation, outcome.answer
        if answer is None:
            return
        key = self._key(investigation, incident, self._required_incident(investigation))
        if key in await in_store(self._store.posts, investigation.id):
            return
        text = closing_note_text(investigation, answer.report.headline, self._page(outcome))
        await self.write(investigation, text, incident=incident, amend=False)

    async def _fill_fields(self, outcome: Outcome, incident: str) -> None:
        custom_fields = self._settings.pagerduty.custom_fields
        if not custom_fields or outcome.answer is None:
            return
        field_texts = field_values(outcome.investigation, outcome.answer, self._page(outcome))
        body = {
            "custom_fields": [
                {"name": name, "value": field_texts[ours]}
                for ours, name in custom_fields.items()
                if field_texts[ours]
            ]
        }
        if body["custom_fields"]:
            path = f"/incidents/{incident}/custom_fields/values"
            await self._calls.request(self._calls.put, "set custom fields", path, body)

    def has_joined(self, investigation: StoredInvestigation) -> bool:
        """Whether an open incident of this account joined."""
        noted_incident = self._noted_incident(investigation)
        return any(
            grouped_alert.alert.id != noted_incident and not grouped_alert.resolved_at
            for grouped_alert in self._joined(investigation)
        )

    async def point_from_joined(self, outcome: Outcome) -> None:
        """On open incidents whose alerts joined: why, and where the answer is. Each is written
        once, at the account's pace, and never amended.

        An incident that cannot be written to keeps no other waiting. Raises ConnectorError where
        another try may succeed, or where PagerDuty takes no note at all.
        """
        investigation = outcome.investigation
        noted_incident = self._noted_incident(investigation)
        posts = await in_store(self._store.posts, investigation.id)
        failed: ConnectorError | None = None
        in_a_row = 0
        for grouped_alert in self._joined(investigation):
            done = self._key(investigation, grouped_alert.alert.id, noted_incident) in posts
            if done or grouped_alert.resolved_at or grouped_alert.alert.id == noted_incident:
                continue
            try:
                await self._point_from(grouped_alert, outcome)
            except ConnectorError as error:
                log.warning(
                    "the note on incident %s was not written: %s", grouped_alert.alert.id, error
                )
                in_a_row += 1
                failed = error if error.retryable else failed
                # Then PagerDuty accepts no other note either.
                if error.status in KEY_REFUSED or in_a_row >= FAILURES_IN_A_ROW:
                    raise
            else:
                in_a_row = 0
        if failed is not None:
            raise failed

    async def _point_from(self, grouped_alert: GroupedAlert, outcome: Outcome) -> None:
        investigation, incident = outcome.investigation, grouped_alert.alert.id
        noted_incident = self._noted_incident(investigation)
        headline, page = investigation.headline or "", self._page(outcome)
        text = joined_note_text(investigation, grouped_alert.why, headline, page)
        path = f"/incidents/{incident}/notes"

        async def find() -> str | None:
            return await self._calls.request(self._calls.find, path, investigation.id)

        async def send() -> str:
            await self._pace.joined()
            standing = await self._calls.request(self._calls.standing, incident)
            # One that is over needs none, and one that was merged is noted by the other.
            if standing.resolved or standing.id != incident:
                return NO_POST
            return await self._calls.request(self._calls.create, path, text)

        key = self._key(investigation, incident, noted_incident)
        await self._post_once(key, investigation.id, find=find, send=send)

    def _joined(self, investigation: StoredInvestigation) -> list[GroupedAlert]:
        """The alerts of this account that joined."""
        grouped_alerts: list[GroupedAlert] = []
        for grouped_alert in investigation.related:
            account = grouped_alert.alert.labels.get(ACCOUNT_LABEL, "")
            is_ours = grouped_alert.alert.source == VENDOR and account == self._target.account
            # The id becomes part of a path.
            if is_ours and INCIDENT_ID.fullmatch(grouped_alert.alert.id):
                grouped_alerts.append(grouped_alert)
        return grouped_alerts

    def _page(self, outcome: Outcome) -> str:
        return f"{self._settings.server.public_url}/investigations/{outcome.investigation.id}"

    def _noted_incident(self, investigation: StoredInvestigation) -> str:
        """The incident of this account that gets the note; "" where there is none."""
        written = self._target.address(investigation.reply_to, None, self._settings)
        return bare_id(written or "")

    def _required_incident(self, investigation: StoredInvestigation) -> str:
        incident = self._noted_incident(investigation)
        if not INCIDENT_ID.fullmatch(incident):
            raise ConnectorError(VENDOR, "create note", "the alert names no incident")
        return incident


def _reason(investigation: StoredInvestigation) -> str:
    return (investigation.headline or "").removeprefix("The investigation failed: ")
