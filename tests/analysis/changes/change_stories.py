"""The incidents of change_stories.toml and change_stories_more.toml as case folders."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faultline.analysis.case.folder import Case
from tests.analysis.cases import at, logs, series, write_case

FILES = [
    Path(__file__).with_name(name) for name in ("change_stories.toml", "change_stories_more.toml")
]
LINES = 12
"""How often each line is logged, over 20 minutes."""


@dataclass(frozen=True)
class Story:
    """One wording of a story: `told` is its table, `coincident` the changes that do nothing."""

    name: str
    blamed: str | None
    told: dict[str, Any]
    coincident: Sequence[dict[str, Any]]

    def write(self, folder: Path, *, beside: Sequence[dict[str, Any]] = ()) -> Case:
        """The case folder, with more changes `beside` those of the story."""
        signal, (low, high) = (
            self.told.get("signal", "error_ratio"),
            self.told.get("level", (0.002, 0.3)),
        )
        changes = [
            *self.told.get("change", ()),
            *(self.coincident if self.told.get("coincident") else ()),
            *beside,
        ]
        return write_case(
            folder,
            alert={"service": "orders", "signal": signal, "title": f"orders {signal} too high"},
            metrics=[
                *series("orders", signal, low, high),
                *series("web", signal, low, high / 3, onset=1),
                *(row for spec in self.told.get("metrics", ()) for row in _metric(*spec)),
            ],
            logs=[*self._lines(), *logs("orders", "handled request", range(-60, 0), level="INFO")],
            topology=[{"caller": a, "callee": b} for a, b in self.told.get("edges", EDGES)],
            changes=[_change(c) for c in changes],
        )

    def _lines(self) -> list[dict[str, Any]]:
        said = {"orders": self.told["lines"], **self.told.get("other_lines", {})}
        return [
            row
            for service, lines in said.items()
            for n, line in enumerate(lines)
            for i in range(LINES)
            for row in logs(
                service,
                line.replace("#", str(4711 + 37 * i)),
                [0.2 + n / 10 + 20 / LINES * i],
                level="ERROR",
            )
        ]


EDGES = (("web", "orders"), ("orders", "stock"))


def stories() -> list[Story]:
    """All wordings, `name` with its number; those of one story in their order."""
    out: list[Story] = []
    seen: dict[str, int] = {}
    for file in FILES:
        found = tomllib.loads(file.read_text())
        for told in found["story"]:
            number = seen[told["story"]] = seen.get(told["story"], 0) + 1
            out.append(
                Story(f"{told['story']} {number}", told.get("blamed"), told, found["coincident"])
            )
    return out


def _change(told: dict[str, Any]) -> dict[str, Any]:
    rest = {k: v for k, v in told.items() if k not in ("minute", "service")}
    return {
        "time": at(told["minute"]),
        "service": told.get("service", "orders") or None,
        "kind": "deploy",
        **rest,
    }


def _metric(
    shape: str, service: str, signal: str, low: float, high: float, since: float
) -> list[dict[str, Any]]:
    if shape == "step":
        return series(service, signal, low, high, onset=since)
    shares = {m: min(1.0, max(0.0, (m - since) / -since)) for m in range(-240, 30)}
    return [
        {"time": at(m), "service": service, "signal": signal, "value": low + (high - low) * share}
        for m, share in shares.items()
    ]
