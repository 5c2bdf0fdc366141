"""Deploys, settings, flags and migrations: harmless ones all day, and now and then a guilty one.

Both come out of the same function: a guilty change differs in the value it sets, where its diff is
recorded at all, and in nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proving_ground.worlds.clock import STEP_S, WorldClock
from proving_ground.worlds.graph import Graph, UnitKind
from proving_ground.worlds.seeds import WorldSeed

KINDS = ("deploy", "config", "flag", "migration", "scale")
USUAL_KINDS = (0.58, 0.2, 0.1, 0.06, 0.06)
"""Shares of kinds among all changes."""
THEMED = 0.4
"""Share of changes whose title says what they are about; the others name a version or ticket."""
WITH_FILES = 0.6
WITH_DIFF = 0.5
AUTHORS = ("amira", "ben", "chen", "dora", "emil", "fatima", "goran", "hana", "ivo", "jun")


@dataclass(frozen=True)
class Theme:
    """What a change may be about: titles, the file, and the values that are fine or are not."""

    titles: tuple[str, ...]
    file: str
    line: str
    old: str
    fine: tuple[str, ...]
    bad: tuple[str, ...]


THEMES: dict[str, Theme] = {
    "code": Theme(
        ("Rework request handling", "Add validation of input", "Refactor response mapping"),
        "src/handler.go",
        "    items := {}(req)",
        "load",
        ("loadItems", "loadOnce"),
        ("loadAll", "loadAndSortAll"),
    ),
    "query": Theme(
        ("Load details with the list", "Add owner to results", "Return full objects"),
        "src/repository.py",
        "    rows = session.{}",
        "query(Item).all()",
        ("query(Item).limit(50).all()", "query(Item).options(joined(Item.owner)).all()"),
        ("query(Item).options(lazy(Item.owner)).all()", "query(Item).yield_each()"),
    ),
    "schema": Theme(
        ("Change columns of the main table", "Rework indexes", "Backfill new column"),
        "migrations/0042_items.sql",
        "{};",
        "SELECT 1",
        ("CREATE INDEX CONCURRENTLY items_o ON items (o)", "ALTER TABLE items ADD note text"),
        ("DROP INDEX items_owner", "UPDATE items SET note = '' WHERE note IS NULL"),
    ),
    "pool": Theme(
        ("Tune database connections", "Rework connection handling", "Adjust pool"),
        "config/database.yaml",
        "  max_connections: {}",
        "40",
        ("48", "60", "36"),
        ("4", "2", "5"),
    ),
    "resources": Theme(
        ("Adjust resource limits", "Right-size containers", "Change requests and limits"),
        "deploy/values.yaml",
        "    cpu: {}",
        "1000m",
        ("1200m", "900m"),
        ("100m", "150m"),
    ),
    "memory": Theme(
        ("Keep parsed results", "Update runtime options", "Add in-process buffer"),
        "src/buffer.java",
        "  private final int limit = {};",
        "10_000",
        ("12_000", "8_000"),
        ("Integer.MAX_VALUE", "1_000_000_000"),
    ),
    "cache": Theme(
        ("Adjust cache lifetimes", "Rename cache keys", "Tune caching"),
        "config/cache.yaml",
        "  ttl_s: {}",
        "3600",
        ("3000", "5400"),
        ("30", "60"),
    ),
    "timeouts": Theme(
        ("Tune time-outs and retries", "Adjust client policy", "Change call budget"),
        "config/clients.yaml",
        "  timeout_ms: {}",
        "1000",
        ("1200", "900"),
        ("40", "60"),
    ),
    "network": Theme(
        ("Move to new hostnames", "Update endpoints", "Rework settings of the environment"),
        "config/endpoints.yaml",
        "  host: {}",
        "api.internal",
        ("api.internal.svc", "api-v2.internal"),
        ("api.interal", "localhost"),
    ),
    "flag": Theme(
        ("new-pricing: off to on", "fast-path: 5 % to 50 %", "new-rules: on for everyone"),
        "flags/production.json",
        '  "rollout": {}',
        "5",
        ("10", "20"),
        ("100", "50"),
    ),
    "scale": Theme(
        ("Scale replicas", "Change minimum replicas", "Raise maximum replicas"),
        "deploy/values.yaml",
        "  replicas: {}",
        "3",
        ("4", "5"),
        ("1", "2"),
    ),
}
OF_KIND = {
    "deploy": ("code", "query", "memory", "pool", "cache", "timeouts"),
    "config": ("resources", "cache", "timeouts", "network", "pool"),
    "flag": ("flag",),
    "migration": ("schema",),
    "scale": ("scale",),
}


@dataclass(frozen=True)
class RecordedChange:
    """A row of the changes table. `at_s` is in seconds since 1970."""

    at_s: float
    unit: str
    kind: str
    id: str
    title: str
    author: str | None
    files: str | None
    diff: str | None


def draw_change(
    rng: np.random.Generator, at_s: float, unit: str, kind: str, theme: str, *, bad: bool
) -> RecordedChange:
    """One change. `bad` decides the value in the diff and nothing else."""
    about = THEMES[theme]
    version = f"{rng.integers(1, 5)}.{rng.integers(0, 60)}.{rng.integers(0, 10)}"
    plain = (f"{unit} {version}", f"v{version}", f"OPS-{rng.integers(100, 9999)}")
    title = str(rng.choice(about.titles if rng.random() < THEMED else plain))
    number = "".join(rng.choice(list("0123456789abcdef"), size=12))
    author = str(rng.choice(AUTHORS)) if rng.random() < 0.7 else None
    with_files = rng.random() < WITH_FILES
    with_diff = with_files and rng.random() < WITH_DIFF
    new = str(rng.choice(about.bad if bad else about.fine))
    diff = None
    if with_diff:
        old = about.line.format(about.old)
        diff = f"--- a/{about.file}\n+++ b/{about.file}\n@@ -12,1 +12,1 @@\n-{old}\n"
        diff += f"+{about.line.format(new)}\n"
    return RecordedChange(
        at_s, unit, kind, number, title, author, about.file if with_files else None, diff
    )


def usual_changes(
    graph: Graph, clock: WorldClock, around: int, seed: WorldSeed
) -> list[RecordedChange]:
    """The harmless changes of the day, and a few in the hour before step `around`.

    The latter have the delays of guilty changes: being close to an incident says little in shops
    that deploy all day, and must not say more here.
    """
    rng = seed.generator("changes")
    changed = graph.of_kind(
        UnitKind.FRONT, UnitKind.SERVICE, UnitKind.SERVICE, UnitKind.WORKER, UnitKind.DATABASE
    )
    hours = clock.steps * STEP_S / 3600
    per_hour = np.exp(rng.uniform(np.log(0.15), np.log(4)))
    times = list(rng.uniform(0, clock.steps, rng.poisson(per_hour * hours)))
    for _ in range(int(rng.integers(0, 4))):
        times.append(max(0.0, around - guilty_delay(rng)))
    changes = []
    for step in sorted(times):
        kind = str(rng.choice(KINDS, p=USUAL_KINDS))
        theme = str(rng.choice(OF_KIND[kind]))
        unit = graph.units[int(rng.choice(changed))].name
        changes.append(draw_change(rng, clock.at(step), unit, kind, theme, bad=False))
    return changes


def guilty_delay(rng: np.random.Generator) -> float:
    """Steps from a guilty change to its effect: mostly minutes, now and then up to an hour."""
    minutes = rng.exponential(2.0) + 0.3 if rng.random() < 0.8 else rng.uniform(5, 60)
    return float(minutes * 60 / STEP_S)
