"""`python -m proving_ground.plain.second_alerts`: an incident whose second alert comes while the
first is investigated, or after it is answered. Alerts of one incident belong in one
investigation, and its answers must not name different causes without saying so."""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from faultline.analysis.errors import FaultlineError
from faultline.bot.store.connections import connect
from faultline.bot.store.store import Store
from proving_ground.plain.asking import WITHIN_S, running_server, write_settings
from proving_ground.plain.generator.families import request_expression
from proving_ground.plain.generator.incident import HOURS, Incident, draw
from proving_ground.plain.generator.kinds import KINDS
from proving_ground.plain.generator.rules import (
    ATTEMPTS,
    AlertRule,
    NoSignal,
    level_of,
    threshold_of,
)
from proving_ground.plain.history import alert_of, webhook_of
from proving_ground.plain.playing import RunningIncident, running_incident

KIND = "callee's errors"
CALLS = ("client metrics", "mesh", "settings", "unknown")
MOMENTS = ("at once", "after the answer")
PAIRS = ("callee, caller", "caller, callee", "far caller, callee", "symptom, symptom", "twin")
"""Which alerts come: of the service that fails, of who calls it, of who calls that, twice of the
failing one, or of that and its namesake in staging, which is no part of the incident."""
ENDED = ("done", "failed", "joined")
QUIET_S = 2.0
"""Nothing has changed for so long: the bot is done."""
EARLIER_CAUSE = re.compile(r"named .{1,200} as the cause")
"""What an answer says where an earlier one of the incident blamed something else."""


@dataclass(frozen=True)
class Combination:
    """Two alerts of one incident, and what is known of the calls."""

    pair: str
    moment: str
    calls: str

    def __str__(self) -> str:
        return f"{self.pair}; {self.moment}; calls: {self.calls}"


@dataclass(frozen=True)
class Outcome:
    """What the bot made of two alerts."""

    combination: Combination
    investigations: int
    """Those that were not joined to another."""
    causes: tuple[str, ...]
    """Every cause that an answer has named, the first one first."""
    says_so: bool
    """Whether an answer says that another cause was named before."""
    headlines: tuple[str, ...]

    @property
    def contradicts(self) -> bool:
        """Whether different causes were named without a word about it."""
        return len(self.causes) > 1 and not self.says_so

    @property
    def right(self) -> bool:
        """Whether the alerts are where they belong, and the answers agree."""
        if self.combination.pair == "twin":
            return self.investigations == 2
        # Where nothing tells who calls whom, two that agree, or say so, are right as well.
        is_tied = self.combination.calls != "unknown"
        return not self.contradicts and (self.investigations == 1 or not is_tied)


def combinations() -> Iterator[Combination]:
    """All of them: 40."""
    for calls, pair, moment in product(CALLS, PAIRS, MOMENTS):
        yield Combination(pair, moment, calls)


def main(arguments: list[str] | None = None) -> int:
    """Play, print a line of each; returns the exit status."""
    options = parser().parse_args(arguments)
    results: list[Outcome] = []
    began = time.monotonic()
    for calls in options.calls or CALLS:
        chosen = [
            combination
            for combination in combinations()
            if combination.calls == calls
            and combination.pair in (options.pairs or PAIRS)
            and combination.moment in (options.moments or MOMENTS)
        ]
        with tempfile.TemporaryDirectory(prefix="second-alerts-") as scratch:
            for outcome in play_all(chosen, options.seed, Path(scratch)):
                results.append(outcome)
                sys.stderr.write(line_of(outcome) + "\n")
    right = sum(outcome.right for outcome in results)
    contradictions = sum(outcome.contradicts for outcome in results)
    sys.stdout.write(
        f"{right} of {len(results)} right, {contradictions} with answers that contradict each "
        f"other, {time.monotonic() - began:.0f} s\n"
    )
    return 0


def line_of(outcome: Outcome) -> str:
    """One combination, and below it how its investigations ended."""
    word = "right" if outcome.right else "contradicts" if outcome.contradicts else "wrong"
    causes = ", ".join(outcome.causes) or "none"
    first = f"{word:12s}{outcome.combination}; causes named: {causes}"
    return "\n".join([first, *(f"{'':12s}{headline}" for headline in outcome.headlines)])


def play_all(chosen: Sequence[Combination], seed: int, scratch: Path) -> Iterator[Outcome]:
    """Play combinations with the same knowledge of calls on one history. Raises NoSignal."""
    if not chosen:
        return
    incident, rules = incident_with_rules(chosen[0].calls, seed)
    with running_incident(incident, scratch) as running:
        webhooks = {
            role: webhook_of(rule, alert_of(incident, rule, running.url, running.end))
            for role, rule in rules.items()
        }
        webhooks["twin"] = in_staging(webhooks["callee"], incident)
        webhooks["symptom"] = webhooks["callee"]
        for number, combination in enumerate(chosen):
            folder = scratch / f"bot-{number}"
            yield play_pair(combination, webhooks, running, folder)


def incident_with_rules(calls: str, seed: int) -> tuple[Incident, Mapping[str, AlertRule]]:
    """An incident whose failing service, its caller and the caller of that have rules that fire.
    Raises NoSignal."""
    kind = replace(KINDS[KIND], fixed={"calls_by": calls})
    for attempt in range(10 * ATTEMPTS):
        incident = draw(kind, seed, attempt, HOURS)
        system, service = incident.system, incident.cast["service"]
        callers = system.callers_of(service)
        far = [name for caller in callers for name in system.callers_of(caller)]
        far = [name for name in far if name not in callers and name != service]
        if not far or system.staging is None:
            continue
        caller = next(name for name in callers if far[0] in system.callers_of(name))
        names = {"callee": service, "caller": caller, "far caller": far[0]}
        rules = {role: rule_on(incident, name) for role, name in names.items()}
        if all(rules.values()):
            return incident, {role: rule for role, rule in rules.items() if rule is not None}
    raise NoSignal(f"seed {seed}: no draw has three services whose rules fire")


def rule_on(incident: Incident, name: str) -> AlertRule | None:
    """A rule on the failing requests of a service."""
    service = incident.system.services[name]
    threshold = threshold_of(incident, level_of(incident, service, "errors"), "errors")
    if threshold is None:
        return None
    text = request_expression(incident.system, service, "errors", is_generic=False)
    title = "".join(word.capitalize() for word in name.split("-"))
    summary = f"More than {threshold:.0%} of requests fail"
    return AlertRule(f"{title}HighErrorRate", f"{text} > {threshold:g}", summary)


def in_staging(webhook: Mapping[str, Any], incident: Incident) -> dict[str, Any]:
    """The same alert of the service that has the same name in staging."""
    system = incident.system
    alert = dict(webhook["alerts"][0])
    names = {system.namespace: system.staging or "", 'env="prod"': 'env="staging"'}
    link = alert["generatorURL"]
    for name, twin in {**names, "env%3D%22prod%22": "env%3D%22staging%22"}.items():
        link = link.replace(name, twin)
    labels = {}
    for label, value in alert["labels"].items():
        labels[label] = value.replace(system.namespace, system.staging or "")
    alert |= {"labels": labels, "generatorURL": link}
    return {**webhook, "commonLabels": labels, "alerts": [alert]}


def second_of(pair: str, webhooks: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """The second alert of a pair."""
    if pair == "twin":
        return webhooks["twin"]
    webhook = webhooks[pair.partition(", ")[2]]
    if pair != "symptom, symptom":
        return webhook
    alert = dict(webhook["alerts"][0])
    alert["labels"] = {**alert["labels"], "alertname": "ErrorBudgetBurn"}
    return {**webhook, "commonLabels": alert["labels"], "alerts": [alert]}


def play_pair(
    combination: Combination,
    webhooks: Mapping[str, Mapping[str, Any]],
    running: RunningIncident,
    folder: Path,
) -> Outcome:
    """Send two alerts to a fresh bot, and wait until it is done with them."""
    pair = combination.pair
    first = webhooks["callee" if pair == "twin" else pair.partition(", ")[0]]
    asking = running.asking("serve", first)
    write_settings(asking, folder)
    with running_server(asking, folder) as server:
        engine = connect(f"sqlite:///{folder}/state/faultline.sqlite")
        store = Store(engine)
        causes: dict[str, None] = {}
        server.post(first)
        if combination.moment == "after the answer":
            causes |= await_end(store)
        server.post(second_of(pair, webhooks))
        causes |= await_end(store)
        investigations = store.latest()
        # Slack's blocks take names apart, and cases keep the sentence.
        cases = (folder / "state" / "cases").glob("*/alert.json")
        noted = [note for case in cases for note in json.loads(case.read_text()).get("notes", [])]
        engine.dispose()
    headlines = [f"{stored.status}: {stored.headline}" for stored in investigations]
    separate = [stored for stored in investigations if stored.status != "joined"]
    says_so = any(EARLIER_CAUSE.search(note) for note in noted)
    return Outcome(combination, len(separate), tuple(causes), says_so, tuple(headlines))


def await_end(store: Store) -> dict[str, None]:
    """Wait until nothing has changed for a while; gives the causes that were named meanwhile.
    Raises FaultlineError."""
    causes: dict[str, None] = {}
    deadline = time.monotonic() + WITHIN_S
    state: Sequence[tuple[str, str, int]] = ()
    since = time.monotonic()
    while time.monotonic() < deadline:
        investigations = store.latest()
        now = [(stored.id, stored.status, stored.runs) for stored in investigations]
        for stored in reversed(investigations):
            if stored.status == "done" and stored.culprit:
                causes[stored.culprit] = None
        if now != state:
            state, since = now, time.monotonic()
        is_over = bool(now) and all(status in ENDED for _, status, _ in now)
        if is_over and time.monotonic() - since > QUIET_S:
            return causes
        time.sleep(0.1)
    raise FaultlineError(f"the bot is not done within {WITHIN_S:g} s")


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(
        prog="python -m proving_ground.plain.second_alerts", description=__doc__
    )
    options.add_argument("--seed", type=int, default=1, help="odd ones are to develop on")
    options.add_argument("--calls", nargs="*", choices=CALLS, help="all where none is named")
    options.add_argument("--pairs", nargs="*", choices=PAIRS, help="all where none is named")
    options.add_argument("--moments", nargs="*", choices=MOMENTS, help="both where none is named")
    return options


if __name__ == "__main__":
    sys.exit(main())
