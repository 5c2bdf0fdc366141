"""Is what `verify` says of an answer right?

    python -m benchmarks.verified_answers CASES [--every 6]

Each recorded case is answered by code. Then its sources are played by the recording, and the answer
is verified. Prints, for findings that its sentences cite,

- how many are confirmed where the sources give the same rows again (target all);
- how many are still confirmed where the sources give the baseline in the place of the incident, of
  cases that have one (target none: nothing of the incident is there);
- of those whose signal can be measured now, how many are over where the last minutes are those of
  the baseline, ten minutes before the incident (target all).

What is "still" going on is not counted: the recorded incidents last three to twenty minutes, and a
burst in one is over before its end.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from faultline.analysis.case.folder import Case, read_case
from faultline.analysis.case.tables import ORIGIN, SCHEMAS
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.vocabulary import EvidenceKind, Finding
from faultline.bot.answer.view import answer_view
from faultline.bot.answer.writer.built_in import word
from faultline.bot.investigation.model.model_session import in_a_thread
from faultline.bot.investigation.verifying import LATELY, VerifiedFinding, verify
from faultline.bot.mcp.answer_tools import cited, sentences_of
from faultline.connectors.shared.contract.base import Check, Collected, Item, Request
from faultline.connectors.shared.settings.connector_settings import Limits

TIMES = {"metrics": "time", "logs": "time", "spans": "start", "changes": "time"}
BEFORE = timedelta(minutes=10)
MEASURED = ("still", "over")
Rows = Callable[[str, pl.DataFrame, Request], pl.DataFrame]
"""What a source gives of a recorded table."""


@dataclass
class Recording:
    """A source that gives what it gave when the case was recorded, or what `rows` makes of it."""

    name: str
    case: Case
    rows: Rows
    kinds: tuple[EvidenceKind, ...] = ("metrics",)
    limits: Limits = field(default_factory=Limits)

    async def collect(self, request: Request) -> Collected:
        """Its tables with its items."""
        tables, items = {}, []
        for item in self.case.evidence:
            if item.source != self.name or item.kind not in SCHEMAS:
                continue
            recorded: pl.DataFrame = getattr(self.case, item.kind)
            columns = [name for name in recorded.columns if name != ORIGIN]
            tables[item.kind] = self.rows(item.kind, recorded.select(columns), request)
            selection = {
                "services": item.services,
                "signals": item.signals,
                "changes": item.changes,
            }
            items.append(Item(item.kind, item.query, item.window, rows=item.rows, **selection))
        return Collected(tables, tuple(items))

    async def check(self) -> Check:
        """It is there."""
        return Check(self.name, True, self.name)


def same_rows(case: Case) -> Rows:
    """The same again, and calm since: the last minutes are those before the incident."""
    calm = case.scope.incident.start - BEFORE

    def rows(kind: str, recorded: pl.DataFrame, request: Request) -> pl.DataFrame:
        now, time = request.scope.incident, TIMES.get(kind)
        if time is None or now.end == case.scope.incident.end:
            return recorded
        recent_rows = recorded.filter(pl.col(time) > calm - LATELY, pl.col(time) <= calm)
        return recent_rows.with_columns(pl.col(time) + (now.end - calm))

    return rows


def calm_rows(case: Case) -> Rows:
    """Nothing of the incident: what was as long before it stands in its place."""
    incident = case.scope.incident

    def rows(kind: str, recorded: pl.DataFrame, _request: Request) -> pl.DataFrame:
        time = TIMES.get(kind)
        if time is None or kind == "changes":
            return recorded
        during = (pl.col(time) >= incident.start) & (pl.col(time) <= incident.end)
        ago = incident.end - incident.start + BEFORE
        before = recorded.filter(~during).with_columns(
            (pl.col(time) + ago).cast(recorded.schema[time])
        )
        return pl.concat([recorded.filter(~during), before.filter(during)])

    return rows


def answered(case: Case) -> tuple[Finding, ...]:
    """The findings that the sentences of the answer cite."""
    diagnosis = diagnose(case)
    report = word(diagnosis, case.alert, case.gaps)
    view = answer_view(case.alert, diagnosis, report, gaps=case.gaps, evidence=case.evidence)
    return view.findings_of(cited(sentences_of(view)))


def verified(case: Case, findings: tuple[Finding, ...], rows: Rows) -> list[VerifiedFinding]:
    """What `verify` says where the sources give these rows."""
    sources = sorted({item.source for item in case.evidence})
    with tempfile.TemporaryDirectory() as scratch:
        verification = verify(
            case,
            findings,
            [Recording(name, case, rows) for name in sources],
            now=datetime.now(UTC),
            run=in_a_thread,
            scratch=Path(scratch),
        )
        return list(asyncio.run(verification).findings.values())


def counted(folder: Path) -> Counter[str]:
    """How the findings of one case fare."""
    case = read_case(folder)
    findings = answered(case)
    counts: Counter[str] = Counter()
    for finding in verified(case, findings, same_rows(case)):
        counts["asked again"] += finding.then != "not_asked"
        counts["confirmed"] += finding.then == "confirmed"
        counts["measured now"] += finding.now in MEASURED
        counts["over"] += finding.now == "over"
    # Without a baseline nobody recorded what it was like before.
    calm = verified(case, findings, calm_rows(case)) if case.scope.baseline else []
    for calm_finding in calm:
        moved = calm_finding.finding.series.get("table") in ("metrics", "logs", "spans")
        counts["calm"] += moved and calm_finding.then != "not_asked"
        counts["confirmed where calm"] += moved and calm_finding.then == "confirmed"
    return counts


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", type=Path)
    parser.add_argument("--every", type=int, default=1, help="Take every Nth case.")
    options = parser.parse_args()
    folders = sorted(path for path in options.cases.iterdir() if (path / "alert.json").exists())
    total: Counter[str] = Counter()
    for folder in folders[:: options.every]:
        total += counted(folder)
        sys.stdout.write(f"{folder.name}\r")
    sys.stdout.write(f"{len(folders[:: options.every])} cases\n")
    for outcome, of, target in (
        ("confirmed", "asked again", 1.0),
        ("confirmed where calm", "calm", 0.0),
        ("over", "measured now", 1.0),
    ):
        share = total[outcome] / max(1, total[of])
        sys.stdout.write(
            f"{outcome}: {total[outcome]} of {total[of]} ({share:.3f}, target {target:g})\n"
        )


if __name__ == "__main__":
    main()
