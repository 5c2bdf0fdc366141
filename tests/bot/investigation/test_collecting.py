"""What several connectors brought becomes one case, in which nothing appears twice."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from faultline.analysis.case.folder import Case, read_case
from faultline.analysis.case.tables import SCHEMAS
from faultline.analysis.vocabulary import Alert
from faultline.bot.investigation.collecting import assemble, store_part
from faultline.bot.store.case_store import CaseStore
from faultline.connectors.shared.contract.base import Collected, Item, for_storage
from faultline.connectors.shared.rows.log_windows import LEAST_LINES, LEFT_OUT, SOURCE
from tests.connectors.conftest import ALERT_AT, ONSET, request_for


def table(name: str, *rows: dict[str, Any]) -> pl.DataFrame:
    """Rows of a table, with nulls where nothing is said."""
    columns = SCHEMAS[name].columns
    whole = [dict.fromkeys(columns) | row for row in rows]
    return pl.DataFrame(whole, schema=columns)


def assembled(folder: Path, **brought: Collected) -> Case:
    """The case of what these connectors brought."""
    cases = CaseStore(folder / "cases")
    names = [name.replace("_", " ") for name in brought]
    for name, collected in zip(names, brought.values(), strict=True):
        scratch = folder / name
        (scratch / "files").mkdir(parents=True)
        store_part(name, collected, scratch, cases, "case")
    alert = Alert(source="x", title="slow", started_at=ALERT_AT, service="payments")
    scope = request_for(folder, services=("payments",), alert=alert).scope
    assemble(alert, scope, names, cases, "case")
    with cases.checkout("case") as checked_out:
        return read_case(checked_out)


def deploy(name: str, minutes: float, title: str) -> Collected:
    at = ONSET + timedelta(minutes=minutes)
    own = {"time": at, "service": "payments", "kind": "deploy", "id": name, "title": title}
    return Collected({"changes": table("changes", own)})


def test_a_rollout_that_was_reported_too_is_one_change(tmp_path: Path) -> None:
    rolled_out = "Rollout of payments: image payments:1.0 -> payments:1.1"
    case = assembled(
        tmp_path,
        kubernetes_eu=deploy("payments-5c9", -2, rolled_out),
        github=deploy("v1.1", -4, "Deployed v1.1"),
        changes=deploy("v1.1", -1, "Deploy payments v1.1"),
    )
    (row,) = case.changes.to_dicts()
    assert (row["id"], row["time"]) == ("v1.1", ONSET - timedelta(minutes=2))


def logged(service: str, text: str, **attributes: str) -> dict[str, Any]:
    own = {"time": ONSET, "service": service, "message": text}
    return own | {"attributes": json.dumps(attributes)}


def test_a_line_names_the_first_query_that_brought_it(tmp_path: Path) -> None:
    lines = table("logs", *(logged("cart", f"line {n}") for n in range(3)))
    errors, every = lines.head(2), lines.tail(2)
    one = Item("logs", "errors", rows=2).holding(errors)
    other = Item("logs", "all", rows=2).holding(every.rows())
    first = Collected({"logs": lines}, (one, other))
    # Another source has one of the lines as well, and one that no query of its is known to hold.
    more = table("logs", logged("cart", "line 2"), logged("cart", "line 9"))
    second = Collected({"logs": more}, (Item("logs", "recorded", rows=2),))
    case = assembled(tmp_path, loki=for_storage(first), datadog=for_storage(second))
    named = dict(case.logs.select("message", "evidence").iter_rows())
    assert named == {"line 0": "E1", "line 1": "E1", "line 2": "E2", "line 9": None}


@pytest.mark.parametrize("held", [[("just", 1)], [(object(), {}, [1])], [(1, 2, 3), ("a",)]])
def test_what_an_item_holds_that_is_no_row_costs_its_citations_alone(held: list[Any]) -> None:
    lines = table("logs", logged("cart", "line 0"))
    item = Item("logs", "all").bringing("logs", held)
    stored = for_storage(Collected({"logs": lines}, (item,))).tables["logs"]
    assert stored["message"].to_list() == ["line 0"]


def test_container_lines_count_only_where_no_other_source_brought_them(tmp_path: Path) -> None:
    services = ("payments", "cart")
    cluster = []
    for name in services:
        cluster += [logged(name, f"panic {n}", source=SOURCE) for n in range(2 * LEAST_LINES)]
    cluster.append(logged("payments", "container app terminated", source="kubernetes pod state"))
    items = []
    for name in services:
        details = {"last lines": "panic: nil map"}
        item = Item("logs", f"kubectl logs {name}", rows=9, services=(name,), details=details)
        items.append(item)
    backend = [logged("payments", f"panic {n}") for n in range(LEAST_LINES)]
    # A vendor of errors tells of one; it holds no logs of the cart.
    backend.append(logged("cart", "NullPointerException"))
    case = assembled(
        tmp_path,
        kubernetes=Collected({"logs": table("logs", *cluster)}, tuple(items)),
        loki=Collected({"logs": table("logs", *backend)}),
    )
    found = case.logs.filter(service="payments")["message"].to_list()
    assert len(found) == LEAST_LINES + 1
    assert "container app terminated" in found
    assert case.logs.filter(service="cart").height == 2 * LEAST_LINES + 1
    told = {one.query: (one.rows, one.cut, one.details) for one in case.evidence}
    assert told["kubectl logs cart"] == (9, None, details)
    assert told["kubectl logs payments"] == (0, LEFT_OUT, details)
