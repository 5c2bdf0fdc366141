"""Whether the figures and times of findings are what Prometheus answers for the same minutes.

    python -m proving_ground.plain --seeds 1,3 --keep CASES
    python benchmarks/quoted_figures.py CASES... [--worst 20]

Each kept case is diagnosed again, its Prometheus is started on what was written, and the query that
a finding cites is asked again for the minutes that its sentence speaks of: those before the onset
and those after it. A level or a ratio is off by more than a tenth, or it is not. An onset is early
where it lies more than a minute, or one scrape where that is longer, before anything was wrong: the
generator knows when that was.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median, quantiles

import httpx

from faultline.analysis.case.folder import Case, read_case
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.metrics.series import labels_of
from faultline.analysis.metrics.shifts import KIND as METRIC_SHIFT
from faultline.analysis.vocabulary import Finding
from proving_ground.plain.generator.kinds import KINDS
from proving_ground.plain.generator.rules import make_incident
from proving_ground.plain.history import running_history

STRONG = 0.5
"""From this strength on a finding stands in answers with its figures."""
ASIDE_S = 900.0
"""Seconds on either side of the onset of which the figures are taken to speak."""
OFF = 0.1
MINUTE_S = 60.0
LAST_S = 300.0
GREW = 1.25
"""What went on by a quarter of its move after the first minutes is measured in the last
ones."""
LEAST_POINTS = 3
CHANCE = 0.25
"""Share of their level that half of the points differ by: of a few failing requests in a quarter of
an hour, the hours before say more."""
RANGE = re.compile(r"\[(\d+)s[\]:]")
NOTHING_WRONG = "nothing"


@dataclass(frozen=True)
class QuotedFigure:
    """One figure of a sentence beside what Prometheus answers."""

    case: str
    sentence: str
    name: str
    quoted: float
    answered: float

    @property
    def error(self) -> float:
        """As a share of what is answered."""
        if self.quoted == self.answered:
            return 0.0
        return abs(self.quoted - self.answered) / max(abs(self.answered), 1e-12)


@dataclass(frozen=True)
class QuotedOnset:
    """By how many seconds an onset lies before the incident's own."""

    case: str
    sentence: str
    early_s: float
    allowed_s: float

    @property
    def is_early(self) -> bool:
        """Whether it is more than a minute, or a scrape, too early."""
        return self.early_s > self.allowed_s


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the counts; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folders", nargs="+", type=Path, help="what the plain rig kept")
    parser.add_argument("--worst", type=int, default=0, help="show this many of the worst")
    options = parser.parse_args(arguments)
    figures: list[QuotedFigure] = []
    onsets: list[QuotedOnset] = []
    for root in options.folders:
        for played in sorted(root.glob("*/played.json")):
            if (played.parent / "bot" / "case").is_dir():
                compare_case(played.parent, figures, onsets)
    off = [figure for figure in figures if figure.error > OFF]
    early = [onset for onset in onsets if onset.is_early]
    sys.stdout.write(f"figures off by more than 10 %: {len(off)} of {len(figures)}")
    sys.stdout.write(f" {dict(Counter(figure.name for figure in off))}\n")
    sys.stdout.write(f"onsets early: {len(early)} of {len(onsets)}\n")
    off.sort(key=lambda figure: -figure.error)
    early.sort(key=lambda onset: -onset.early_s)
    for figure in off[: options.worst]:
        sys.stdout.write(
            f"  {figure.case}: {figure.sentence} {figure.name} {figure.quoted:.4g}, "
            f"Prometheus {figure.answered:.4g}\n"
        )
    for onset in early[: options.worst]:
        sys.stdout.write(f"  {onset.case}: {onset.sentence} {onset.early_s:.0f} s early\n")
    return 0


def compare_case(folder: Path, figures: list[QuotedFigure], onsets: list[QuotedOnset]) -> None:
    """Add the figures and onsets of one kept case."""
    played = json.loads((folder / "played.json").read_text())
    case = read_case(folder / "bot" / "case")
    scrape_s = float(str(played["setting"]["scrape"]).split()[0])
    incident, _ = make_incident(KINDS[played["kind"]], played["seed"])
    # A change may work before the incident's onset.
    guilty = [change.at_s for change in incident.changes if change.is_guilty]
    began_s = history_end_s(folder / "history" / "data") + min([incident.onset_s, *guilty])
    with running_history(folder / "history") as url, httpx.Client(base_url=url) as client:
        prometheus = CasePrometheus(case, client, scrape_s)
        for finding in diagnose(case).findings:
            if finding.kind != METRIC_SHIFT or finding.strength < STRONG or not finding.onset:
                continue
            if played["truth"]["story"] != NOTHING_WRONG and finding.details.bad:
                early_s = began_s - finding.onset.timestamp()
                allowed_s = max(MINUTE_S, scrape_s)
                onsets.append(QuotedOnset(folder.name, finding.sentence, early_s, allowed_s))
            for name, answered in answers(prometheus, finding, finding.onset.timestamp()).items():
                quoted = finding.numbers[name]
                figure = QuotedFigure(folder.name, finding.sentence, name, quoted, answered)
                figures.append(figure)


def history_end_s(data: Path) -> float:
    """When the written history ends."""
    metas = [json.loads(file.read_text()) for file in data.glob("*/meta.json")]
    return max(float(meta["maxTime"]) for meta in metas) / 1000


def answers(prometheus: CasePrometheus, finding: Finding, onset: float) -> dict[str, float]:
    """What Prometheus answers for each figure; empty where it has too few points, or nobody knows
    by which query the series came."""
    query = prometheus.query_of(finding)
    points = prometheus.points(query, finding) if query else []
    before = values_before(points, onset)
    blur_s = max([float(seconds) for seconds in RANGE.findall(query)] or [0.0])
    steady = steady_points(points, finding, onset + blur_s)
    after = [value for at, value in steady if at < onset + ASIDE_S]
    if min(len(before), len(after)) < LEAST_POINTS:
        return {}
    level, reached = median(before), median(after)
    last = median([value for at, value in steady if at >= steady[-1][0] - LAST_S])
    if abs(last - level) > GREW * abs(reached - level):
        reached = last
    levels = {"baseline": level, "incident": reached}
    if "ratio" in finding.numbers and level:
        levels["ratio"] = reached / level
    return levels


def values_before(points: Sequence[tuple[float, float]], onset: float) -> list[float]:
    """Of the quarter hour before the onset; of all hours before where that is chance."""
    values = [value for at, value in points if onset - ASIDE_S <= at < onset]
    if len(values) < LEAST_POINTS:
        return []
    low, middle, high = quantiles(values)
    if high - low > CHANCE * abs(middle):
        return [value for at, value in points if at < onset]
    return values


def steady_points(
    points: Sequence[tuple[float, float]], finding: Finding, since: float
) -> list[tuple[float, float]]:
    """What came once the step was whole; of what is over, the minutes in which it was not."""
    steady = [(at, value) for at, value in points if at >= since]
    if not finding.details.recovered:
        return steady
    half = (finding.numbers["baseline"] + finding.numbers["incident"]) / 2
    is_up = finding.details.direction != "down"
    return [(at, value) for at, value in steady if (value > half) == is_up]


@dataclass(frozen=True)
class CasePrometheus:
    """The server with a case's history."""

    case: Case
    client: httpx.Client
    scrape_s: float

    def query_of(self, finding: Finding) -> str:
        """The query that brought the finding's series, empty where none is known."""
        for item in self.case.evidence:
            is_about = finding.signal in item.signals and finding.subject in (item.services or ())
            if is_about and item.id in finding.evidence:
                return item.query or ""
        return ""

    def points(self, query: str, finding: Finding) -> list[tuple[float, float]]:
        """Times (s) and values of the finding's series; none where several may be it."""
        incident = self.case.scope.incident
        params: dict[str, str | float] = {
            "query": query,
            "start": (incident.start - timedelta(hours=2)).timestamp(),
            "end": incident.end.timestamp(),
            "step": self.scrape_s,
        }
        answer = self.client.post("/api/v1/query_range", data=params, timeout=60).json()
        parts = set(labels_of(finding.series.get("labels", "")).values())
        name = finding.subject.rpartition("/")[2]
        matching = []
        for series in answer["data"]["result"]:
            labels = set(series["metric"].values())
            if name in {label.rpartition("/")[2] for label in labels} and parts <= labels:
                matching.append(series["values"])
        if len(matching) != 1:
            return []
        values = [(float(at), float(value)) for at, value in matching[0]]
        return [(at, value) for at, value in values if not math.isnan(value)]


if __name__ == "__main__":
    sys.exit(main())
