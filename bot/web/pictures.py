"""The pictures of an answer as the page holds them: each twice, for a desktop and for a phone."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from faultline.analysis.case.calls import ServiceCall
from faultline.analysis.case.folder import Case
from faultline.analysis.vocabulary import Diagnosis
from faultline.bot.answer.pictures import (
    MOST_ON_LARGE_MAP,
    IncidentMap,
    bars_svg,
    chart_svg,
    decisive_chart_of,
    incident_map,
    map_svg,
    step_bars_of,
)
from faultline.bot.answer.view import AnswerView

WIDE, NARROW = 640, 334
"""Widths in pixels: beside the text of a desktop, and on a phone of 390 less its margins."""
_ID = re.compile(r"[0-9A-Za-z-]{1,64}")


@dataclass(frozen=True)
class DrawnPicture:
    """SVG that was escaped when it was drawn."""

    wide: Markup
    narrow: Markup


@dataclass(frozen=True)
class DrawnCall:
    """A call on the map, for the list of its sources."""

    call: ServiceCall

    @property
    def page(self) -> str | None:
        """The page of the investigation that learned it."""
        learned_in = self.call.learned_in or ""
        # Stored text becomes an address only where it looks like an id.
        return f"/investigations/{learned_in}" if _ID.fullmatch(learned_in) else None


@dataclass(frozen=True)
class DrawnMap:
    """The map, what stands beside it, and the calls on it."""

    picture: DrawnPicture
    notes: tuple[str, ...]
    calls: tuple[DrawnCall, ...]
    left_out: int
    large: DrawnPicture | None = None
    """More of the services that are left out; None where there are none."""
    services: tuple[tuple[str, str], ...] = ()
    """The services on it, by name and as people call them."""
    still_left_out: int = 0
    """Services that are not even on the large one."""


def drawn_map(view: AnswerView, calls: Sequence[ServiceCall]) -> DrawnMap | None:
    """The map of the incident; None where there is none."""
    incident = incident_map(view, calls)
    if incident is None:
        return None
    listed = tuple(DrawnCall(call.call) for call in incident.calls)
    services = tuple((box.service, box.name) for box in incident.boxes)
    drawn = DrawnMap(
        _pictures_of(incident), incident.notes, listed, incident.left_out, services=services
    )
    large = incident_map(view, calls, MOST_ON_LARGE_MAP) if incident.left_out else None
    if large is None:
        return drawn
    return replace(drawn, large=_pictures_of(large), still_left_out=large.left_out)


def _pictures_of(incident: IncidentMap) -> DrawnPicture:
    return _both(lambda width: map_svg(incident, width, _finding_anchor))


def _both(draw: Callable[[int], str]) -> DrawnPicture:
    """The drawing in both widths. It has escaped whatever is foreign in it."""
    return DrawnPicture(Markup(draw(WIDE)), Markup(draw(NARROW)))  # noqa: S704


def drawn_chart(case: Case, diagnosis: Diagnosis) -> DrawnPicture | None:
    """The decisive chart; None where no finding has a series to show."""
    chart = decisive_chart_of(case, diagnosis)
    if chart is None:
        return None
    return _both(lambda width: chart_svg(chart, width))


def drawn_steps(diagnosis: Diagnosis) -> DrawnPicture | None:
    """Where the time of a training step goes; None where no rank is blamed."""
    bars = step_bars_of(diagnosis)
    if bars is None:
        return None
    return _both(lambda width: bars_svg(bars, width))


def _finding_anchor(finding: str) -> str | None:
    """Where the finding stands on the page."""
    return f"#{finding}" if _ID.fullmatch(finding) else None
