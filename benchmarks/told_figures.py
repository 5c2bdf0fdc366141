"""Whether the figures and times that findings tell are what Prometheus answers for the same minutes.

    python -m proving_ground.plain --seeds 1,3 --keep CASES
    python benchmarks/told_figures.py CASES... [--worst 20]

Each kept case is diagnosed anew, its Prometheus is started on what was written, and the query that
a finding cites is asked again for the minutes that its sentence speaks of: those before the onset
and those after it. A level or a ratio is off by more than a tenth, or it is not. An onset is early
where it lies more than a minute, or one scrape where that is longer, before anything was wrong: the
generator knows when that was.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median, quantiles

import httpx
from proving_ground.plain.generator.incident import Incident
from proving_ground.plain.generator.kinds import KINDS
from proving_ground.plain.generator.rules import make_incident
from proving_ground.plain.history import running_history

from faultline.analysis.case.folder import Case, read_case
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.metrics.series import labels_of
from faultline.analysis.metrics.shifts import KIND as METRIC_SHIFT
from faultline.analysis.vocabulary import Evidence, Finding

STRONG = 0.5
"""From this strength on a finding is told with its figures."""
ASIDE = 900.0
"""Seconds on either side of the onset of which the figures are taken to speak."""
OFF = 0.1
MINUTE_S = 60.0
LAST_S = 300.0
GREW = 1.25
"""What went on by a quarter of its move after the first minutes is told by where it went in the
last ones."""
LEAST_POINTS = 3
CHANCE = 0.25
"""Share of their level that half of the points differ by: of a few failing requests in a quarter of
an hour, the hours before say more."""
RANGE = re.compile(r"\[(\d+)s[\]:]")
NOTHING_WRONG = "nothing"


@dataclass(frozen=True)
class ToldFigure:
    """One figure of a sentence beside what Prometheus answers."""

    case: str
    sentence: str
    name: str
    told: float
    answered: float

    @property
    def error(self) -> float:
        """As a share of what is answered."""
        if self.told == self.answered:
            return 0.0
        return abs(self.told - self.answered) / max(abs(self.answered), 1e-12)


@dataclass(frozen=True)
class ToldOnset:
    """By how many seconds a told onset lies before the incident's own."""

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
    parser.add_argument("--worst", type=int, default=0, help="show so many of the worst")
    options = parser.parse_args(arguments)
    figures: list[ToldFigure] = []
    onsets: list[ToldOnset] = []
    for root in options.folders:
        for played in sorted(root.glob("*/played.json")):
            if not (played.parent / "bot" / "case").is_dir():
                continue
            for told in _told(played.parent):
                (figures if isinstance(told, ToldFigure) else onsets).append(told)  # type: ignore[arg-type]
    off = [figure for figure in figures if figure.error > OFF]
    early = [onset for onset in onsets if onset.is_early]
    sys.stdout.write(f"figures off by more than 10 %: {len(off)} of {len(figures)}")
    sys.stdout.write(f" {dict(Counter(figure.name for figure in off))}\n")
    sys.stdout.write(f"onsets early: {len(early)} of {len(onsets)}\n")
    off.sort(key=lambda figure: -figure.error)
    early.sort(key=lambda onset: -onset.early_s)
    for figure in off[: options.worst]:
        sys.stdout.write(
            f"  {figure.case}: {figure.sentence} {figure.name} {figure.told:.4g}, "
            f"Prometheus {figure.answered:.4g}\n"
        )
    for onset in early[: options.worst]:
        sys.stdout.write(f"  {onset.case}: {onset.sentence} {onset.early_s:.0f} s early\n")
    return 0


def _told(folder: Path) -> Iterator[ToldFigure | ToldOnset]:
    """The figures and onsets of one kept case."""
    played = json.loads((folder / "played.json").read_text())
    case = read_case(folder / "bot" / "case")
    diagnosis = diagnose(case)
    scrape_s = float(str(played["setting"]["scrape"]).split()[0])
    incident, _ = make_incident(KINDS[played["kind"]], played["seed"])
    began_s = _end_s(folder / "history" / "data") + _first_s(incident)
    name = folder.name
    with running_history(folder / "history") as url, httpx.Client(base_url=url) as prometheus:
        for finding in diagnosis.findings:
            if finding.kind != METRIC_SHIFT or finding.strength < STRONG or not finding.onset:
                continue
            if played["truth"]["story"] != NOTHING_WRONG and finding.details.bad:
                early_s = began_s - finding.onset.timestamp()
                yield ToldOnset(name, finding.sentence, early_s, max(MINUTE_S, scrape_s))
            item = _item(case, finding)
            if item is not None and item.query:
                yield from _figures(name, case, finding, item.query, prometheus, scrape_s)


def _end_s(data: Path) -> float:
    """When the written history ends."""
    metas = [json.loads(file.read_text()) for file in data.glob("*/meta.json")]
    return max(float(meta["maxTime"]) for meta in metas) / 1000


def _first_s(incident: Incident) -> float:
    """When the first of what went wrong began: a change may work before the incident's onset."""
    guilty = [change.at_s for change in incident.changes if change.is_guilty]
    return min([incident.onset_s, *guilty])


def _item(case: Case, finding: Finding) -> Evidence | None:
    """The query that brought the finding's series."""
    for item in case.evidence:
        in_item = finding.signal in item.signals and finding.subject in (item.services or ())
        if in_item and item.id in finding.evidence:
            return item
    return None


def _figures(
    name: str,
    case: Case,
    finding: Finding,
    query: str,
    prometheus: httpx.Client,
    scrape_s: float,
) -> Iterator[ToldFigure]:
    """What is told of the levels, beside the answers for the minutes on either side."""
    onset = finding.onset.timestamp() if finding.onset else 0.0
    blur_s = max([float(seconds) for seconds in RANGE.findall(query)] or [0.0])
    start = case.scope.incident.start - timedelta(hours=2)
    end_s = case.scope.incident.end.timestamp()
    points = _points(prometheus, query, finding, (start.timestamp(), end_s), scrape_s)
    before = [value for at, value in points if onset - ASIDE <= at < onset]
    if len(before) >= LEAST_POINTS and _is_chance(before):
        before = [value for at, value in points if at < onset]
    steady = [(at, value) for at, value in points if at >= onset + blur_s]
    if finding.details.recovered:
        # Of what is over, the minutes speak in which it was not.
        half = (finding.numbers["baseline"] + finding.numbers["incident"]) / 2
        is_up = finding.details.direction != "down"
        steady = [(at, value) for at, value in steady if (value > half) == is_up]
    after = [value for at, value in steady if at < onset + ASIDE]
    if min(len(before), len(after)) < LEAST_POINTS:
        return
    level, reached = median(before), median(after)
    last = median([value for at, value in steady if at >= steady[-1][0] - LAST_S])
    if abs(last - level) > GREW * abs(reached - level):
        reached = last
    numbers = finding.numbers
    answers = {"baseline": level, "incident": reached}
    if "ratio" in numbers and level:
        answers["ratio"] = reached / level
    for key, answered in answers.items():
        yield ToldFigure(name, finding.sentence, key, numbers[key], answered)


def _is_chance(values: Sequence[float]) -> bool:
    """Whether the points differ so much that a quarter of an hour of them tells no level."""
    low, middle, high = quantiles(values)
    return high - low > CHANCE * abs(middle)


def _points(
    prometheus: httpx.Client,
    query: str,
    finding: Finding,
    window: tuple[float, float],
    step_s: float,
) -> list[tuple[float, float]]:
    params: dict[str, str | float] = {
        "query": query,
        "start": window[0],
        "end": window[1],
        "step": step_s,
    }
    answer = prometheus.post("/api/v1/query_range", data=params, timeout=60).json()
    labels = labels_of(finding.series.get("labels", ""))
    matching = [
        series
        for series in answer["data"]["result"]
        if _is_of(series["metric"], finding.subject, labels)
    ]
    if len(matching) != 1:
        return []
    values = [(float(at), float(value)) for at, value in matching[0]["values"]]
    return [(at, value) for at, value in values if value == value]


def _is_of(metric: Mapping[str, str], subject: str, labels: Mapping[str, str]) -> bool:
    """Whether a series is the finding's: named like its subject, with the labels of its part."""
    names = {value.rpartition("/")[2] for value in metric.values()}
    return subject.rpartition("/")[2] in names and set(labels.values()) <= set(metric.values())


if __name__ == "__main__":
    sys.exit(main())
