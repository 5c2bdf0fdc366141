"""How well are alerts of one incident kept together, and how often is an incident hidden behind
another?

    python benchmarks/storm_groups.py [--incidents 200] [--minutes 5]

Simulated: a company of 60 services in four layers, each calling one to four of the layer below. An
incident begins at one service and travels to its callers, each hop with seven chances in ten and
after a minute on average; every service that suffers sends one to three alerts, each held back for
up to three minutes by its rule. A second, unrelated incident begins at the same time or later at a
service that neither calls nor is called by the first one's, and shares its labels. Printed:
investigations per incident, the share of an incident's alerts that are in its largest one, and how
many of the second incidents were hidden, that is have no investigation.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from sqlalchemy import event

from faultline.analysis.vocabulary import Alert
from faultline.bot.policy.admission import Policy
from faultline.bot.settings import Settings
from faultline.bot.settings.alerts import AlertSettings
from faultline.bot.store.connections import connect
from faultline.bot.store.databases import migrate
from faultline.bot.store.store import Store
from faultline.connectors.shared.settings.shared_settings import ServiceSettings

LAYERS, WIDTH = 4, 15
SIGNALS = (
    "error ratio is high",
    "p99 latency is high",
    "requests dropped",
    "saturation",
    "queue is growing",
)
START = datetime(2026, 1, 1, tzinfo=UTC)
Calls = dict[str, tuple[str, ...]]


def company(dice: random.Random) -> Calls:
    """Who calls whom."""
    layers = [[f"svc-{layer}{chr(97 + n)}" for n in range(WIDTH)] for layer in range(LAYERS)]
    calls: Calls = dict.fromkeys(layers[-1], ())
    for upper, lower in itertools.pairwise(layers):
        calls |= {name: tuple(dice.sample(lower, dice.randint(1, 4))) for name in upper}
    return calls


def suffering(root: str, calls: Calls, dice: random.Random) -> dict[str, float]:
    """Services with the second at which they begin to suffer."""
    onsets, front = {root: 0.0}, [root]
    while front:
        at = front.pop()
        for caller, callees in calls.items():
            if at in callees and caller not in onsets and dice.random() < 0.7:
                onsets[caller] = onsets[at] + dice.expovariate(1 / 60)
                front.append(caller)
    return onsets


def alerts_of(
    incident: str, root: str, calls: Calls, begin: datetime, dice: random.Random
) -> list[Alert]:
    """The incident's alerts."""
    alerts = []
    for service, second in suffering(root, calls, dice).items():
        for signal in dice.sample(SIGNALS, dice.randint(1, 3)):
            at = begin + timedelta(seconds=second + dice.uniform(0, 180))
            labels = {
                "incident": incident,
                "cluster": "eu-1",
                "fingerprint": f"{incident}{service}{signal}",
            }
            title = f"{service}: {signal}"
            alerts.append(
                Alert(
                    source="alertmanager",
                    title=title,
                    service=service,
                    started_at=at,
                    labels=labels,
                )
            )
    return alerts


def apart(service: str, other: str, calls: Calls) -> bool:
    """Whether neither is the other, calls it, or is called by it."""
    return service != other and other not in calls[service] and service not in calls[other]


def played(store: Store, alerts: Sequence[Alert]) -> dict[str, Counter[str]]:
    """Incident to the investigations of its alerts."""
    by_incident: dict[str, Counter[str]] = {}
    for alert in sorted(alerts, key=lambda a: a.started_at):
        accepted = store.accept(alert, now=alert.started_at)
        by_incident.setdefault(alert.labels["incident"], Counter())[
            accepted.investigation_id or ""
        ] += 1
    return by_incident


def _without_fsync(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute("PRAGMA synchronous=OFF")


def main() -> None:
    """Play storms, print figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--incidents", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=5)
    args = parser.parse_args()
    print(
        "second begins after | alerts | investigations each | in the largest | second hidden | ms "
        "per alert"
    )
    for offset in (0, 3, 6, 10, 20, 40):
        dice = random.Random(offset)
        investigations = largest = alerts = hidden = sent = 0
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as directory:
            calls = company(dice)
            services = {
                name: ServiceSettings(depends_on=callees) for name, callees in calls.items()
            }
            rules = AlertSettings(group_minutes=args.minutes)
            engine = connect(f"sqlite:///{directory}/store.sqlite")
            migrate(engine)
            event.listen(engine, "connect", _without_fsync)
            engine.dispose()
            store = Store(engine, policy=Policy.of(Settings(services=services, alerts=rules)))
            for number in range(args.incidents):
                begin = START + number * timedelta(hours=6)
                choice = dice.choice(list(calls))
                other = dice.choice([name for name in calls if apart(choice, name, calls)])
                storm = alerts_of(f"{number}a", choice, calls, begin, dice)
                storm += alerts_of(
                    f"{number}b", other, calls, begin + timedelta(minutes=offset), dice
                )
                first, second = (played_of for _, played_of in sorted(played(store, storm).items()))
                investigations += len(first)
                largest += max(first.values())
                alerts += first.total()
                sent += len(storm)
                hidden += set(second) <= set(first)
            engine.dispose()
        ms = (time.perf_counter() - began) * 1000 / max(1, 4 * alerts)
        per_incident, share = investigations / args.incidents, largest / alerts
        print(
            f"{offset:16} min | {alerts:6} | {per_incident:19.2f} | {share:14.0%} | "
            f"{hidden / args.incidents:13.0%} | {ms:.1f}"
        )


if __name__ == "__main__":
    main()
