"""The toolbox: which tools there are, calls side by side, and arguments that mean harm."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from faultline.connectors.shared.contract.base import Check, Collected, Item, Request
from faultline.connectors.shared.settings.connector_settings import Limits
from tests.bot.investigation.model.cases import diagnosed_case
from tests.bot.investigation.model.tools.conftest import Desk, at, write_rich_case


def test_no_tool_is_offered_whose_data_does_not_exist(desk: Desk, tmp_path: Path) -> None:
    assert set(desk.offered) == {
        "data",
        "finding",
        "series",
        "logs",
        "traces",
        "request",
        "changes",
        "topology",
        "events",
        "compare",
        "calculate",
        "read",
    }
    small = Desk(diagnosed_case(tmp_path / "small"), tmp_path)
    assert {"traces", "request", "topology", "events", "training"}.isdisjoint(small.offered)
    may_bring = Desk(diagnosed_case(tmp_path / "asked"), tmp_path / "b", [Slow("spans")])
    assert {"traces", "request", "collect"} <= set(may_bring.offered)


class Slow:
    """Brings a series of cart's, sooner when asked about fewer services."""

    name = "slow"
    limits = Limits(deadline_s=20)

    def __init__(self, kind: Any = "metrics") -> None:
        self.kinds = (kind,)

    async def collect(self, request: Request) -> Collected:
        await asyncio.sleep(0.4 if "checkout" in request.scope.services else 0.0)
        item = Item("metrics", f"about {', '.join(request.scope.services)}", rows=0)
        return Collected(items=(item,))

    async def check(self) -> Check:
        return Check(self.name, True, "fine")


def test_calls_of_one_round_run_side_by_side_and_are_numbered_in_their_order(
    tmp_path: Path,
) -> None:
    desk = Desk(write_rich_case(tmp_path / "case"), tmp_path / "work", [Slow()])
    calls: list[tuple[str, dict[str, Any]]] = [
        ("collect", {"connector": "slow", "services": ["checkout"]}),
        ("collect", {"connector": "slow", "services": ["cart"]}),
        ("series", {"service": "cart"}),
        ("changes", {}),
        ("nonsense", {}),
    ]
    outcomes = desk.round(*calls)
    assert [outcome.evidence_name for outcome in outcomes[:2]] == ["ask-1", "ask-2"]
    queries = [e.query for e in desk.bench.case.evidence if e.source == "slow"]
    assert queries == ["about checkout", "about cart"], "though the second answered first"
    assert "[L1] cart" in outcomes[2].text
    numbered = [int(o.id[1:]) for o in desk.bench.observations]
    assert numbered == list(range(1, len(numbered) + 1))
    of_changes = [line for line in outcomes[3].text.split("\n") if "deploy" in line]
    assert of_changes[0].startswith(f"[L{numbered[-1]}]")
    assert outcomes[4].error


def test_a_name_is_understood_as_it_was_shown(tmp_path: Path) -> None:
    folder = write_rich_case(tmp_path / "case")
    names = ("jo.doe@example.com", "_hidden*", "db AKIAIOSFODNN7EXAMPLE")
    with (folder / "metrics.jsonl").open("a") as metrics:
        for minute in range(-60, 6):
            for name in names:
                row = {"time": at(minute), "service": name, "signal": "_x", "value": 1}
                metrics.write(json.dumps(row) + "\n")
    desk = Desk(folder, tmp_path / "work")
    rows = [row for row in desk.rows("data") if "signals ‗x" in row]
    shown = [row.split("] ", 1)[1].split(": ")[0] for row in rows]
    assert len(shown) == 3
    assert not any(name in shown for name in names), "nothing personal, no secret, no mark-up"
    for name in shown:
        assert len(desk.rows("series", service=name, signal="‗x")) == 2


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("series", {"service": "cart", "signal": "(a+)+$" * 20}),
        ("series", {"service": "cart", "resolution_s": 10**9}),
        ("series", {"service": "cart", "resolution_s": 60, "start": "0001-01-01T00:00:00Z"}),
        ("series", {"service": "cart", "resolution_s": 60, "start": "2026-11-20T03:00:00"}),
        ("series", {"service": 'cart"} or vector(1) #'}),
        ("logs", {"show": "lines", "start": "1970-01-01T00:00:00Z"}),
        ("logs", {"show": "lines", "around": "9999-12-31T23:59:59Z"}),
        ("logs", {"show": "lines", "around": "0001-01-01T00:00:00Z"}),
        ("logs", {"show": "lines", "skip": -1}),
        ("logs", {"level": "[[["}),
        ("changes", {"id": "../../etc/passwd"}),
        ("changes", {"id": "4f2a", "from_line": 0}),
        ("request", {"trace_id": "x' OR 1=1 --"}),
        ("topology", {"service": "\u202etrac"}),
        ("events", {"object": "$(reboot)"}),
        ("compare", {"signal": "cpu", "service": "cart", "by": "__class__"}),
        ("finding", {"ids": ["F1"] * 100}),
        ("data", {"service": "x" * 5000}),
        ("data", {"path": "/etc/passwd"}),
    ],
)
def test_hostile_arguments_get_one_clear_error(
    desk: Desk, name: str, arguments: dict[str, Any]
) -> None:
    error = desk.error(name, **arguments)
    assert error.startswith("<data>\nerror: ")
    assert "failed (" not in error, "no surprise"
    assert len(error) < 1500
