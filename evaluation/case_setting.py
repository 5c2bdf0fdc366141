"""How a case is set up: where the culprit lies from the alert, and what telemetry there is.

Simulated worlds tell it in `truth.json` beside the label; of other cases a label may give the path.
Grades are broken down by it. Like the label it is read by no investigation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faultline.evaluation.labels import CaseLabel

AT_THE_ALERT = "at the alert"
FAR = 3
"""Calls from which on distances are counted together: few cases lie further."""
COARSE_S = 60
"""Series with more seconds between points than Prometheus' usual minute are coarse."""
SIZES = (20, 60, 150)
"""Upper bounds of the sizes of systems that are reported apart."""


@dataclass(frozen=True)
class CaseSetting:
    """What is known about a case besides the right answer; empty where it is unknown."""

    path: tuple[str, ...] = ()
    """Services from the one that alerts down to the culprit, along calls."""
    distance: str = ""
    culprit_kind: str = ""
    conditions: tuple[tuple[str, str], ...] = ()
    """(what, how it is), such as ("topology", "partial")."""


DEFAULT_SETTING = CaseSetting()


def read_setting(folder: Path, label: CaseLabel | None) -> CaseSetting:
    """The setting of a case; what cannot be read is left out."""
    truth = _read(folder / "truth.json")
    cause = truth.get("cause")
    if not isinstance(cause, Mapping):
        path = label.path if label else ()
        return CaseSetting(path, _calls(len(path) - 1) if path else "", "", _conditions(truth))
    # Calls lead down from the alert; a culprit above it, or beside it, has no such path.
    below = cause.get("where") == "below"
    return CaseSetting(
        path=tuple(cause.get("path") or ()) if below else (),
        distance=_calls(int(cause.get("hops") or 0))
        if below
        else f"{cause.get('where')} the alert",
        culprit_kind=str(cause.get("kind", "")),
        conditions=_conditions(truth),
    )


def named_by_replay(folder: Path) -> tuple[str, ...] | None:
    """The services that an observer would name who has all calls, and the replay without the fault.
    None for a case that has no replay."""
    named = _read(folder / "truth.json").get("named_by_replay")
    return tuple(named) if isinstance(named, list) else None


def _read(file: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(file.read_bytes())
    # What cannot be read is left out: a setting is no part of the grade.
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _calls(hops: int) -> str:
    if hops == 0:
        return AT_THE_ALERT
    if hops >= FAR:
        return f"{FAR} or more calls away"
    return "1 call away" if hops == 1 else f"{hops} calls away"


def _conditions(truth: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    telemetry = truth.get("telemetry")
    if not isinstance(telemetry, Mapping):
        return ()
    coarsest = max(telemetry.get("interval_s") or [0])
    conditions = {
        "size": _size(int(truth.get("units", 0))),
        "step": f"up to {COARSE_S} s" if coarsest <= COARSE_S else f"over {COARSE_S} s",
        "topology": str(telemetry.get("topology")),
        "logs": "yes" if telemetry.get("logs") else "no",
        "spans": "yes" if telemetry.get("spans") else "no",
        "seams in metrics": "yes" if telemetry.get("seams") else "no",
        "late tail": "yes" if telemetry.get("lag_steps") else "no",
        "bystanders": "yes" if truth.get("bystanders") else "no",
    }
    cause = truth.get("cause")
    if isinstance(cause, Mapping):
        conditions["culprit watched"] = "yes" if cause.get("watched") else "no"
        conditions["guilty change"] = "yes" if truth.get("guilty_change") else "no"
    return tuple(conditions.items())


def _size(units: int) -> str:
    least = 1
    for most in SIZES:
        if units <= most:
            return f"{least} to {most}"
        least = most + 1
    return f"{least} or more"
