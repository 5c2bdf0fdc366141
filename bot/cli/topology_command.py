"""`faultline topology`: who calls whom by the settings and by what investigations learned."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from faultline.analysis.case.calls import CATALOGUE, certainty_of
from faultline.bot.answer.foreign_text import single_line
from faultline.bot.policy.services import catalogue_calls, catalogue_name
from faultline.bot.settings import Settings
from faultline.bot.store.databases import open_store
from faultline.bot.store.memory import MAX_CALLS, LearnedCall, LearnedCalls

HOW_TO = (
    "To make it known: set services.NAME.depends_on, connect traces (Tempo, Jaeger, Datadog,\n"
    "X-Ray), or give Prometheus the metrics of clients, a service graph or a mesh. Each\n"
    "investigation then remembers what it sees: docs/who-calls-whom.md"
)
LONGEST_CELL = 100
HEAD = ("CALLER", "CALLEE", "WHERE FROM", "CERTAINTY", "LAST SEEN", "PLACE")


@dataclass
class ListedCall:
    """A pair in one place, and who tells of it."""

    caller: str
    callee: str
    place: Mapping[str, str] = field(default_factory=dict)
    sources: set[str] = field(default_factory=set)
    last_seen: datetime | None = None
    learned_in: str | None = None

    @property
    def pair(self) -> tuple[str, str]:
        """Caller and callee."""
        return self.caller, self.callee

    def add(self, call: LearnedCall) -> None:
        """One more source's word of it."""
        self.sources.add(call.source)
        if self.last_seen is None or call.last_seen > self.last_seen:
            self.last_seen, self.learned_in = call.last_seen, call.investigation_id

    def cells(self) -> tuple[str, ...]:
        """As a row of the table."""
        phrase = f"{self.last_seen:%Y-%m-%d %H:%M}Z" if self.last_seen else "in the settings"
        place = ", ".join(f"{kind} {value}" for kind, value in self.place.items())
        sources = ", ".join(sorted(self.sources))
        return self.caller, self.callee, sources, f"{certainty_of(self.sources):g}", phrase, place

    def document(self) -> dict[str, object]:
        """As a JSON object."""
        return {
            "caller": self.caller,
            "callee": self.callee,
            "sources": sorted(self.sources),
            "certainty": certainty_of(self.sources),
            "last_seen": self.last_seen.isoformat() if self.last_seen else None,
            "learned_in": self.learned_in,
            "place": dict(self.place),
        }


def print_topology(settings: Settings, service: str | None, *, json_: bool) -> None:
    """Print all calls, or those from and to one service."""
    # People may use any of the service's names.
    requested_service = catalogue_name(service, settings)
    store = open_store(settings)
    try:
        learned = LearnedCalls(store.engine).everywhere(service=requested_service)
    finally:
        store.engine.dispose()
    configured = [
        pair
        for pair in catalogue_calls(settings)
        if requested_service is None or requested_service in pair
    ]
    calls = listed_calls(configured, learned)
    if json_:
        json.dump([call.document() for call in calls], sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    for line in _lines(calls, requested_service):
        sys.stdout.write(f"{line}\n")
    if len(learned) >= MAX_CALLS:
        sys.stdout.write(f"Only the first {MAX_CALLS:,} are shown; name a --service.\n")


def listed_calls(
    configured: Iterable[tuple[str, str]], learned: Iterable[LearnedCall]
) -> list[ListedCall]:
    """Each pair once in each place, by name. The settings hold in every place, so a configured
    pair that was also learned in one place is listed with that place alone."""
    calls_by_key: dict[tuple[object, ...], ListedCall] = {}
    for learned_call in learned:
        key = (learned_call.caller, learned_call.callee, *sorted(learned_call.place.items()))
        if key not in calls_by_key:
            calls_by_key[key] = ListedCall(
                learned_call.caller, learned_call.callee, learned_call.place
            )
        calls_by_key[key].add(learned_call)
    every = list(calls_by_key.values())
    for pair in configured:
        same = [call for call in every if call.pair == pair]
        for place in same:
            place.sources.add(CATALOGUE)
        if not same:
            every.append(ListedCall(*pair, sources={CATALOGUE}))
    return sorted(every, key=lambda call: (call.pair, sorted(call.place.items())))


def _lines(calls: Sequence[ListedCall], service: str | None) -> Iterator[str]:
    if calls:
        # Rows under the head, in columns as wide as their widest cell.
        rows = [call.cells() for call in calls]
        cleaned: list[tuple[str, ...]] = [HEAD]
        for row in rows:
            cleaned.append(tuple(single_line(cell, LONGEST_CELL) for cell in row))
        widths = [max(len(row[place]) for row in cleaned) for place in range(len(HEAD))]
        for row in cleaned:
            padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            yield "  ".join(padded).rstrip()
        return
    whose = "who calls whom"
    if service:
        whose = f"who calls {single_line(service, LONGEST_CELL)} and whom it calls"
    yield f"Nothing is known of {whose}."
    yield HOW_TO
