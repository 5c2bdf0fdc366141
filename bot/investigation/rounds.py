"""Rounds: once the evidence is analysed, the connectors are asked about the services, nodes and
volumes to which it leads, and it is analysed again.

All of it happens within the step that analyses. A step that is run again goes on after the rounds
that the case tells of: their parts are in the store.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from faultline.analysis.case.rounds import ROUNDS_FILE, Lead, Round, Rounds
from faultline.analysis.kinds.place_names import NAMESPACE_LABELS, place_in
from faultline.analysis.vocabulary import Alert, Link, Scope
from faultline.analysis.wording.phrases import listed, plain
from faultline.bot.investigation.collecting import collect_part, part_name
from faultline.bot.store.case_store import CaseStore
from faultline.connectors.shared.contract.abilities import FollowsLeads, ReadsRepositories
from faultline.connectors.shared.contract.base import Connector
from faultline.connectors.shared.contract.instances import worth_asking

LAST = 3
"""The number of the last round: the alerting service, what it leads to, and one step further."""
MOST_LEADS = 6
"""Services of one round: Datadog, which asks the most of each, is asked about eight at most."""
WITHIN_S = 12.0
"""No further round begins so long after the first analysis: the answer is due 30 s after the
alert."""


@dataclass(frozen=True)
class NextRound:
    """The round that follows, or why its leads are left. Neither where there is no lead, and where
    no source could follow it."""

    round: Round | None
    why: str | None = None


def next_round(
    rounds: Rounds,
    leads: Sequence[Lead],
    connectors: Sequence[Connector],
    alert: Alert,
    scope: Scope,
    analysed_at: float,
) -> NextRound:
    """Which connectors to ask about which leads. `analysed_at`: when the first analysis ended, by
    the monotonic clock."""
    # A lead that nobody can follow would take the place of another.
    followable = {each for connector in connectors for each in _followed_by(connector, leads)}
    followed = tuple(each for each in leads if each in followable)[:MOST_LEADS]
    if not followed:
        return NextRound(None)
    following: list[str] = []
    for connector in worth_asking(connectors, *request_for(followed, alert, scope)):
        if _followed_by(connector, followed):
            following.append(connector.name)
    if not following:
        return NextRound(None)
    number = len(rounds.rounds) + 2
    if number > LAST:
        return NextRound(None, f"{LAST} rounds are the limit")
    if time.monotonic() - analysed_at > WITHIN_S:
        return NextRound(None, f"{WITHIN_S:g} s had passed")
    return NextRound(Round(number=number, leads=followed, connectors=tuple(following)))


def request_for(leads: Sequence[Lead], alert: Alert, scope: Scope) -> tuple[Alert, Scope]:
    """The request for a round: as if the alert were about the first service, in the same place. Its
    job, its own query and what runbooks add were asked in the first round."""
    services = tuple(each.subject for each in leads if each.kind == "service")
    labels = {name: value for name, value in alert.labels.items() if place_in({name: value})}
    labels |= {name: alert.labels[name] for name in NAMESPACE_LABELS if name in alert.labels}
    lead_alert = Alert(
        source=alert.source,
        title=f"Lead: {leads[0].subject}",
        started_at=alert.started_at,
        service=services[0] if services else None,
        labels=labels,
        links=tuple(Link(title=each.subject, url=url) for each in leads for url in each.links),
    )
    update: dict[str, object] = {
        "services": services,
        "job": None,
        "training": None,
        "queries": (),
        "log_words": None,
    }
    return lead_alert, scope.model_copy(update=update)


def _followed_by(connector: Connector, leads: Sequence[Lead]) -> tuple[Lead, ...]:
    """Those that a connector says that it can follow."""
    if not isinstance(connector, FollowsLeads):
        return ()
    followed = []
    for pointer in leads:
        if pointer.kind not in connector.follows:
            continue
        # Anybody who may annotate a workload could name any repository.
        if pointer.kind == "repository" and not (
            isinstance(connector, ReadsRepositories) and connector.reads_repository(pointer.subject)
        ):
            continue
        followed.append(pointer)
    return tuple(followed)


async def ask_round(
    each: Round,
    connectors: Sequence[Connector],
    alert: Alert,
    scope: Scope,
    cases: CaseStore,
    case_id: str,
    rounds: Rounds,
) -> None:
    """Ask the connectors of the round, and store what they bring as its parts. `rounds`: those
    before it."""
    lead_alert, lead_scope = request_for(each.leads, alert, scope)
    by_name = {connector.name: connector for connector in connectors}
    earlier = {name: [(alert, scope)] for name in scope.connectors}
    for past in rounds.rounds:
        for name in past.connectors:
            earlier.setdefault(name, []).append(request_for(past.leads, alert, scope))
    await asyncio.gather(
        *(
            collect_part(
                by_name[name],
                lead_alert,
                lead_scope,
                cases,
                case_id,
                each.number,
                _followed_by(by_name[name], each.leads),
                tuple(earlier.get(name, ())),
            )
            for name in each.connectors
            if name in by_name
        )
    )


def part_names(connectors: Sequence[str], rounds: Rounds) -> list[str]:
    """The names of all parts: those of one connector follow each other, so that another source
    changes no ids of its evidence."""
    later = [(name, each.number) for each in rounds.rounds for name in each.connectors]
    names = list(dict.fromkeys([*connectors, *(name for name, _ in later)]))
    parts = [(name, 1) for name in connectors] + later
    parts.sort(key=lambda part: names.index(part[0]))
    return [part_name(name, number) for name, number in parts]


def stored_rounds(cases: CaseStore, case_id: str) -> Rounds:
    """The rounds that the case tells of."""
    stored = cases.get(case_id, ROUNDS_FILE)
    return Rounds() if stored is None else Rounds.model_validate_json(stored)


def stored_request(cases: CaseStore, case_id: str) -> tuple[Alert, Scope] | None:
    """The alert and the scope of the case, as it was put together; None for a case without a scope,
    which was not collected from sources that could be asked again."""
    alert, scope = (cases.get(case_id, name) for name in ("alert.json", "scope.json"))
    if alert is None or scope is None:
        return None
    return Alert.model_validate_json(alert), Scope.model_validate_json(scope)


def round_line(followed: Round) -> str:
    """For the progress log."""
    subjects = listed([f"{plain(each.subject)} ({each.because})" for each in followed.leads])
    return f"asking {', '.join(followed.connectors)} about {subjects}"
