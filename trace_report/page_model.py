"""What the page shows, as values: sections of blocks, a panel per rank, diagnoses with their
windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from faultline.trace_report.page_parts import Bars, Curves, Table
from faultline.trace_report.roofline_plot import RooflinePlot


@dataclass(frozen=True)
class ReportBlock:
    """One card: bars, curves and a table, whichever there are."""

    heading: str
    intro: str = ""
    bars: Bars | None = None
    strip: Bars | None = None
    """One bar over time, with `axis` below it."""
    axis: tuple[str, ...] = ()
    curves: Curves | None = None
    roofline: RooflinePlot | None = None
    table: Table | None = None
    note: str = ""
    folded: bool = False
    """Whether it is closed until someone opens it."""

    def __bool__(self) -> bool:
        parts = (self.bars, self.strip, self.curves, self.roofline, self.table)
        return any(part is not None for part in parts)


@dataclass(frozen=True)
class ReportSection:
    """Blocks under one heading; `key` is its anchor."""

    key: str
    heading: str
    intro: str
    blocks: tuple[ReportBlock, ...]


def section_of(key: str, heading: str, intro: str, blocks: Sequence[ReportBlock]) -> ReportSection:
    """A section of the blocks that have something to show."""
    return ReportSection(key, heading, intro, tuple(block for block in blocks if block))


@dataclass(frozen=True)
class Panel:
    """What is shown of one rank."""

    rank: int
    label: str
    blocks: tuple[ReportBlock, ...]


@dataclass(frozen=True)
class EventView:
    """An event that a person can open. `window` is the id of its window, or "" where there is
    none."""

    name: str
    where: str
    window: str = ""
    view: str = ""
    """What Perfetto selects and shows of the window, as its deep links say it."""
    title: str = ""
    file: str = ""


@dataclass(frozen=True)
class DiagnosisView:
    """A diagnosis, worded."""

    rule: str
    severity: str
    subject: str
    statement: str
    fix: str
    source: str
    numbers: tuple[tuple[str, str], ...]
    events: tuple[EventView, ...]


@dataclass(frozen=True)
class ReportPage:
    """The whole page."""

    title: str
    headline: str
    facts: tuple[str, ...]
    verdict: tuple[str, str]
    """In two words, and the style's name of its colour: fault, open, well."""
    diagnoses: tuple[DiagnosisView, ...]
    sections: tuple[ReportSection, ...]
    panels: tuple[Panel, ...]
    ranks_left_out: str
    files: Table | None
    left_out: tuple[tuple[str, str], ...]
    colophon: str
    windows: Mapping[str, str] = field(default_factory=dict)
    """Id -> a JSON string of base64 of gzip of Chrome JSON."""

    @property
    def contents(self) -> tuple[tuple[str, str], ...]:
        """(anchor, heading) of the sections, for the line at the top."""
        rank = (("rank", "One rank"),) if self.panels else ()
        return (
            ("wrong", "Diagnosis"),
            *((s.key, s.heading) for s in self.sections),
            *rank,
            ("read", "Files"),
        )
