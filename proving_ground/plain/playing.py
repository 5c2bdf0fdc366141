"""Plays one incident: writes its history, has its alert fire, asks the product, grades the
answer."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from faultline.analysis.errors import FaultlineError
from faultline.bot.store.changes import ReportedChange
from proving_ground.plain.asking import Asking, ask_product, running_grafana
from proving_ground.plain.generator.incident import Incident
from proving_ground.plain.generator.kinds import KINDS
from proving_ground.plain.generator.rules import (
    ATTEMPTS,
    AlertRule,
    NoSignal,
    make_incidents,
)
from proving_ground.plain.grading import Answer, Truth, grade, truth_of
from proving_ground.plain.history import (
    alert_of,
    question_of,
    running_history,
    webhook_of,
    write_history,
)

AHEAD_S = 15
"""The last sample lies a moment ahead, since writing the history takes time."""


@dataclass
class Played:
    """One incident with its answer and its mark."""

    kind: str
    seed: int
    mark: str = "failed"
    problem: str = ""
    truth: Truth | None = None
    answer: Answer | None = None
    setting: dict[str, str] = field(default_factory=dict)
    """By what results are broken down."""
    alert: dict[str, Any] = field(default_factory=dict)
    changes: list[dict[str, Any]] = field(default_factory=list)
    causes: list[dict[str, Any]] = field(default_factory=list)
    series: int = 0
    made_s: float = 0.0
    took_s: float = 0.0


def play(
    kind: str, seed: int, door: str, keep: Path | None, labelled: Path | None = None
) -> Played:
    """Play the incident of a kind and a seed, and put its case, labelled, into the folder
    `labelled`. Raises ToolMissing where there is no Prometheus."""
    played = Played(kind, seed)
    with tempfile.TemporaryDirectory(prefix="plain-rig-") as scratch:
        folder = Path(scratch)
        played.problem = f"no rule fires in {ATTEMPTS} draws"
        for incident, rule in make_incidents(KINDS[kind], seed):
            try:
                play_in(incident, rule, played, door, folder)
                played.problem = ""
            except NoSignal as error:
                played.problem = str(error)
                shutil.rmtree(folder / "history")
                continue
            except FaultlineError as error:
                played.problem = str(error)
            break
        (folder / "played.json").write_text(json.dumps(asdict(played), indent=1))
        if keep is not None:
            name = re.sub("[^a-z0-9]+", "-", f"{kind}-{seed}".lower())
            shutil.rmtree(keep / name, ignore_errors=True)
            shutil.copytree(folder, keep / name)
        if labelled is not None and (folder / "bot" / "case" / "alert.json").exists():
            write_labelled_case(folder / "bot" / "case", played, labelled)
    return played


def write_labelled_case(case: Path, played: Played, labelled: Path) -> None:
    """A copy of the case folder with its `label.json`, as `benchmarks/suspect_weights.py` reads
    it."""
    assert played.truth is not None
    label: dict[str, Any] = {"fault": played.kind, "change": change_in_case(case, played.truth)}
    if played.truth.names:
        subject, *aliases = played.truth.names
        label |= {"subject": subject, "aliases": aliases}
    else:
        label["verdict"] = "no_active_incident"
    copy = labelled / f"plain-rig-{played.seed:02d}{list(KINDS).index(played.kind):03d}"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(case, copy)
    graded = {name: value for name, value in label.items() if value is not None}
    (copy / "label.json").write_text(json.dumps(graded, indent=1) + "\n")


def change_in_case(case: Path, truth: Truth) -> str | None:
    """The id by which the case knows the guilty change: that of a deploy tool, of an annotation or
    of a rollout. "none" where no change is guilty, None where the case does not hold it."""
    if not truth.change_id:
        return "none"
    if not (case / "changes.parquet").exists():
        return None
    changes = pl.read_parquet(case / "changes.parquet").sort("time", descending=True)
    is_titled = pl.col("title").fill_null("").str.starts_with(truth.change or truth.change_id)
    for rows in (
        changes.filter(pl.col("id") == truth.change_id),
        changes.filter(is_titled),
        changes.filter(pl.col("service").is_in(truth.names)),
    ):
        if rows.height:
            return str(rows["id"][0])
    return None


def play_in(incident: Incident, rule: AlertRule, played: Played, door: str, folder: Path) -> None:
    """Write, fire, ask and grade. Raises NoSignal and FaultlineError."""
    began = time.monotonic()
    played.truth, played.setting = truth_of(incident), setting_of(incident)
    played.changes = [asdict(change) for change in incident.changes]
    with running_incident(incident, folder) as running:
        alert = alert_of(incident, rule, running.url, running.end)
        played.alert, played.series = asdict(rule) | asdict(alert), running.series
        asking = running.asking(door, webhook_of(rule, alert), question_of(rule, alert))
        played.made_s = round(time.monotonic() - began, 1)
        answer = ask_product(asking, folder / "bot")
    played.answer = Answer.of(answer)
    played.causes = answer["causes"][:3]
    played.took_s = answer["took_s"]
    played.mark = grade(played.truth, played.answer)


@dataclass(frozen=True)
class RunningIncident:
    """An incident in a running Prometheus, with what else the product may know of it."""

    incident: Incident
    url: str
    grafana: str
    end: int
    """When its last sample was taken."""
    series: int

    def asking(self, door: str, webhook: Mapping[str, Any], question: str = "") -> Asking:
        """What to ask the product about one of its alerts."""
        system = self.incident.system
        changes = []
        if system.changes_by == "webhook":
            changes = reported_changes(self.incident, self.end)
        calls = {}
        if system.calls_by == "settings":
            for service in system.of_role("front", "app", "worker"):
                calls[service.name] = [call.callee for call in system.calls_of(service.name)]
        return Asking(door, self.url, webhook, question, calls, changes, self.grafana)


@contextmanager
def running_incident(incident: Incident, folder: Path) -> Iterator[RunningIncident]:
    """Write the history of an incident, and start what keeps it."""
    end = round(time.time()) + AHEAD_S
    series = write_history(incident, end, folder / "history")
    with ExitStack() as running:
        url = running.enter_context(running_history(folder / "history"))
        grafana = ""
        if incident.system.changes_by == "annotations":
            grafana = running.enter_context(running_grafana(reported_changes(incident, end)))
        yield RunningIncident(incident, url, grafana, end, series)


def reported_changes(incident: Incident, end: int) -> list[ReportedChange]:
    """The changes as whoever made them reports them."""
    changes = []
    for change in incident.changes:
        at = datetime.fromtimestamp(end + change.at_s, UTC)
        changes.append(ReportedChange(change.id, at, change.service, change.kind, change.title))
    return changes


def setting_of(incident: Incident) -> dict[str, str]:
    """What may matter for the answer besides the kind."""
    system = incident.system
    families = {service.family for service in system.of_role("front", "app")}
    return {
        "story": incident.kind.story,
        "family": families.pop() if len(families) == 1 else "mixed",
        "scrape": f"{system.scrape_s} s",
        "day": "flat" if system.swing == 0 else "day curve",
        "calls": system.calls_by,
        "changes": system.changes_by,
        "staging": "beside staging" if system.staging else "alone",
    }
