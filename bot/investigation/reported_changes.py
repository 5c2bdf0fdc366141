"""Changes that were reported to the bot, as a source of evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faultline.analysis.case.alert_place import place_in, place_of
from faultline.analysis.vocabulary import EvidenceKind, Window
from faultline.bot.runtime.threads import in_store
from faultline.bot.store.changes import MOST_READ, ReportedChange, ReportedChanges
from faultline.connectors.shared.contract.base import Check, Collected, Item, Request
from faultline.connectors.shared.rows.collection_builder import CollectionBuilder, nanoseconds
from faultline.connectors.shared.settings.connector_settings import Limits

LIMITS = Limits()


class ReportedChangesConnector:
    """What `POST /changes` and webhooks that map to changes took.

    It is asked in every investigation, as a worker need not know the tokens of those who report,
    and says nothing where nothing was ever reported.
    """

    name = "changes"
    kinds: tuple[EvidenceKind, ...] = ("changes",)
    limits = LIMITS

    def __init__(self, changes: ReportedChanges) -> None:
        self._changes = changes

    async def collect(self, request: Request) -> Collected:
        """The changes since the first baseline began, but those of another environment, cluster or
        region than the alert's."""
        # Where nothing was ever reported, an empty result does not mean that nothing changed.
        if not await in_store(self._changes.any):
            return Collected()
        scope = request.scope
        start = min(period.start for period in (scope.incident, *scope.baseline))
        window = Window(start=start, end=scope.incident.end)
        changes = await in_store(self._changes.between, window.start, window.end)
        place = place_of(request.alert)
        relevant_changes = [change for change in changes if _may_concern(change, place)]
        builder = CollectionBuilder()
        rows = [_row(change) for change in relevant_changes]
        count = builder.add("changes", rows)
        cut = f"the latest {MOST_READ:,}" if len(changes) >= MOST_READ else None
        item = Item("changes", "reported changes", window, rows=count, cut=cut)
        builder.items.append(item.holding(rows))
        return builder.collected()

    async def check(self) -> Check:
        """The store is checked by itself."""
        return Check(self.name, True, "changes are taken at /changes")


def _may_concern(change: ReportedChange, place: Mapping[str, str]) -> bool:
    """Whether it may concern the alert's place: false only where both name one and they differ."""
    made = place_in(change.place)
    return all(made.get(kind, value) == value for kind, value in place.items())


def _row(change: ReportedChange) -> tuple[Any, ...]:
    return (
        nanoseconds(change.at),
        change.service,
        change.kind,
        change.id,
        change.title,
        change.author or None,
        change.link or None,
        change.files or None,
        change.diff or None,
    )
