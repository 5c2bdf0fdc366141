"""Who calls whom, kept between investigations: what was learned earlier is a part of the case, and
what this case tells is learned.

Memory is a help, never a condition: where it fails the incident is answered without it.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from sqlalchemy import Engine

from faultline.analysis.case.alert_place import place_of
from faultline.analysis.case.calls import CALLS_FILE, CATALOGUE, NOT_RECORDED, CallList
from faultline.analysis.case.tables import TOPOLOGY
from faultline.analysis.errors import FaultlineError
from faultline.analysis.secrets.redaction import masked
from faultline.analysis.vocabulary import Alert, Scope
from faultline.analysis.wording.phrases import plain
from faultline.bot.investigation.collecting import store_part
from faultline.bot.settings import Settings
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.memory import LearnedCall, LearnedCalls
from faultline.bot.store.store import StoredInvestigation
from faultline.bot.store.visibility import ALL, visible_to_teams
from faultline.connectors.shared.contract.abilities import KnowsCalls
from faultline.connectors.shared.contract.base import Collected, Connector, Item
from faultline.connectors.shared.rows.collection_builder import CallRow, nanoseconds, rows_table

log = logging.getLogger("faultline.calls")

LEARNED = "learned"
"""Name of the part that holds what earlier investigations learned."""
MOST_CALLEES = 7
"""Services that are asked about because the alerting one was seen to call them: with it as many as
Datadog, which asks the most of each, is asked about."""
NEVER_LEARNED = frozenset({CATALOGUE, NOT_RECORDED})
"""The settings give theirs each time, and a call without a source may be anything."""


class EarlierCalls:
    """What earlier investigations learned about the place of one alert."""

    def __init__(
        self, engine: Engine, investigation: StoredInvestigation, alert: Alert, settings: Settings
    ) -> None:
        apart = settings.login.isolation == "teams"
        visibility = visible_to_teams([investigation.team]) if apart else ALL
        self._calls = LearnedCalls(engine, visibility)
        self._place = place_of(alert)
        self._days = settings.investigation.learned_calls_days
        self._since = investigation.accepted_at - timedelta(days=self._days)

    def callees(self, service: str | None) -> list[str]:
        """The services that it calls, those seen last first; none where memory fails."""
        if not service:
            return []
        calls = self._stored_calls(service)
        names = dict.fromkeys(call.callee for call in calls if call.caller == service)
        return list(names)

    def store_part(self, cases: CaseStore, case_id: str) -> str | None:
        """Store all of it as a part of the case; says how much, None where there is nothing."""
        calls = self._stored_calls()
        if not calls:
            return None
        with tempfile.TemporaryDirectory(prefix="faultline-learned-") as scratch:
            store_part(LEARNED, learned_evidence(calls), Path(scratch), cases, case_id)
        return f"{len(calls)} calls known from earlier investigations"

    def _stored_calls(self, service: str | None = None) -> Sequence[LearnedCall]:
        if self._days <= 0:
            return []
        try:
            return self._calls.of_place(self._place, since=self._since, service=service)
        # The edge of memory: an incident is answered without it, too.
        except Exception as error:  # noqa: BLE001
            log.warning("cannot read learned calls: %s", type(error).__name__)
            return []


def says_callees(scope: Scope) -> bool:
    """Whether the catalogue says what the alerting service calls."""
    first = scope.services[:1]
    return any(caller in first for caller, _ in scope.calls)


def with_callees(scope: Scope, callees: Sequence[str]) -> Scope:
    """The scope with services that the alerting one is known to call, where the catalogue names
    none."""
    if says_callees(scope):
        return scope
    more = [callee for callee in dict.fromkeys(callees) if callee not in scope.services]
    services = (*scope.services, *more[:MOST_CALLEES])
    return scope.model_copy(update={"services": services})


async def callees_now(
    connectors: Iterable[Connector], alert: Alert, scope: Scope, deadline_s: float
) -> list[str]:
    """The services that the alerting one calls, where a connector knows them before it collects.
    What takes too long is learned while it collects."""
    if not alert.service:
        return []
    callees = [
        _callees_of(connector, alert, scope)
        for connector in connectors
        if isinstance(connector, KnowsCalls)
    ]
    callee_names: dict[str, None] = {}
    try:
        async with asyncio.timeout(deadline_s):
            for answer in await asyncio.gather(*callees):
                callee_names |= dict.fromkeys(answer)
    except TimeoutError:
        log.warning("no list of what %s calls within %g s", plain(alert.service), deadline_s)
    return list(callee_names)


async def _callees_of(connector: KnowsCalls, alert: Alert, scope: Scope) -> tuple[str, ...]:
    try:
        return tuple(map(masked, await connector.callees_of(alert, scope)))
    except FaultlineError:
        # It is asked again while the evidence is collected, and then the gap says why.
        return ()


def learn_calls(
    engine: Engine, cases: CaseStore, investigation: StoredInvestigation, settings: Settings
) -> None:
    """Remember the calls that the answered case tells of."""
    if settings.investigation.learned_calls_days <= 0:
        return
    try:
        written = cases.get(investigation.id, CALLS_FILE)
        if written is not None:
            call_list = CallList.model_validate_json(written)
            LearnedCalls(engine).learn(_to_learn(call_list, investigation))
    except Exception as error:  # noqa: BLE001  the edge of memory: the answer was given
        log.warning("cannot remember calls of %s: %s", investigation.id, type(error).__name__)


def _to_learn(call_list: CallList, investigation: StoredInvestigation) -> Iterator[LearnedCall]:
    now = investigation.accepted_at
    for call in call_list.calls:
        # Learning it again from the case would keep it forever.
        if call.learned_in is not None:
            continue
        for source in call.sources:
            if source not in NEVER_LEARNED:
                # A clock that runs ahead would keep its calls forever.
                called_at = now if call.last_seen is None else min(call.last_seen, now)
                yield LearnedCall(
                    call.caller,
                    call.callee,
                    source,
                    called_at,
                    investigation.id,
                    call_list.place,
                    investigation.team,
                )


def learned_evidence(calls: Sequence[LearnedCall]) -> Collected:
    """Calls that were learned, as evidence of this case."""
    rows = []
    for call in calls:
        observed_nanoseconds = nanoseconds(call.last_seen)
        rows.append(
            CallRow(
                call.caller, call.callee, call.source, observed_nanoseconds, call.investigation_id
            )
        )
    table = rows_table(rows, TOPOLOGY.columns)
    query = "calls that earlier investigations saw"
    item = Item("topology", query, rows=len(rows), source="earlier investigations")
    return Collected({TOPOLOGY.name: table}, (item,))
