"""What an investigation runs in the process pool: analysis and ranking, and the picture.

These functions import late: not whoever asks pays for it, but the processes of the pool, or the
nursery that forks them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analysis.case.calls import CallList
    from analysis.vocabulary import Diagnosis


def load() -> None:
    """Import what these functions need."""
    import bot.answer.pictures.png  # noqa: F401
    from analysis.analyzers import analyzers

    analyzers()


def analyze_with_calls(folder: Path) -> tuple[Diagnosis, CallList]:
    """Diagnose the case in `folder`; also who calls whom in it, and where that is."""
    from analysis.case.alert_place import place_of
    from analysis.case.calls import MOST_WRITTEN, CallList
    from analysis.case.folder import read_case
    from analysis.diagnosis import diagnose
    from analysis.requests.known_calls import known_calls

    case = read_case(folder)
    diagnosis = diagnose(case)
    calls = known_calls(case)[:MOST_WRITTEN]
    return diagnosis, CallList(place=place_of(case.alert), calls=calls)


def analyze_case(folder: Path) -> Diagnosis:
    """Diagnose the case in `folder`."""
    from analysis.case.folder import read_case
    from analysis.diagnosis import diagnose

    return diagnose(read_case(folder))


def render_chart(folder: Path) -> bytes | None:
    """The picture of a case that has been diagnosed: its map and its decisive chart, as PNG."""
    from analysis.case.folder import read_calls, read_case, read_diagnosis
    from bot.answer.pictures.png import answer_png

    return answer_png(read_case(folder), read_diagnosis(folder), read_calls(folder))
