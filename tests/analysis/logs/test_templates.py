from __future__ import annotations

from itertools import chain
from pathlib import Path

from faultline.analysis.logs.templates import log_findings
from tests.analysis.cases import START, logs, write_case

QUIET = logs("api", "handled request 7", [-50 + i for i in range(50)]) + logs(
    "api", "handled request 9", range(1, 25)
)

GRAPH = [{"caller": "api", "callee": "stock-db"}, {"caller": "api", "callee": "cache"}]


def test_a_new_error_line_is_found_with_its_count_example_and_first_time(tmp_path: Path) -> None:
    rows = QUIET + logs(
        "api", "charge 17 failed: no route to 10.0.0.9", [3, 4, 5, 6], level="ERROR"
    )
    (found,) = log_findings(write_case(tmp_path, logs=rows))
    assert (found.kind, found.subject) == ("log_new", "api")
    assert found.numbers["lines"] == 4
    assert found.details.written()["example"] == "charge 17 failed: no route to 10.0.0.9"
    assert found.details.written()["is_error"] is True
    assert found.onset is not None
    assert (found.onset - START).total_seconds() == 180


def test_a_line_that_comes_much_more_often_is_a_surge(tmp_path: Path) -> None:
    rows = QUIET + logs("api", "retrying upstream", [-40, -20], level="WARN")
    rows += logs("api", "retrying upstream", [i / 4 for i in range(80)], level="WARN")
    kinds = {f.kind: f for f in log_findings(write_case(tmp_path, logs=rows))}
    assert kinds["log_surge"].numbers["lines"] == 80
    assert kinds["log_surge"].numbers["ratio"] > 3


def test_a_line_that_stops_while_its_service_goes_on_has_vanished(tmp_path: Path) -> None:
    rows = QUIET + logs("api", "order stored", [-50 + i for i in range(50)])
    found = [f for f in log_findings(write_case(tmp_path, logs=rows)) if f.kind == "log_vanished"]
    assert [f.details.written()["template"] for f in found] == ["order stored"]
    assert found[0].numbers["lines"] == 0


def test_a_service_that_only_logs_the_same_gives_nothing(tmp_path: Path) -> None:
    assert log_findings(write_case(tmp_path, logs=QUIET)) == []


def test_lines_without_a_service_are_kept_under_a_name_that_says_so(tmp_path: Path) -> None:
    rows = QUIET + logs(None, "disk gone", range(1, 5), level="ERROR")
    assert {f.subject for f in log_findings(write_case(tmp_path, logs=rows))} == {"unknown service"}


def test_control_characters_of_a_line_do_not_reach_the_sentence(tmp_path: Path) -> None:
    rows = QUIET + logs("api", "boom\u202e\n\x1b[31m<!channel> failed", range(1, 5), level="ERROR")
    sentence = log_findings(write_case(tmp_path, logs=rows))[0].sentence
    assert all(c.isprintable() for c in sentence)


def test_a_finding_names_the_error_and_the_place_in_code(tmp_path: Path) -> None:
    stack = "java.lang.IllegalStateException: no stock\n\tat com.shop.Stock.take(Stock.java:41)"
    rows = QUIET + logs("api", stack, [3, 4, 5], level="ERROR")
    (found,) = log_findings(write_case(tmp_path, logs=rows))
    assert found.details.written()["error_class"] == "java.lang.IllegalStateException"
    assert found.details.written()["frame"] == "Stock.java:41 Stock.take"
    assert found.sentence.endswith(
        '"java.lang.IllegalStateException: no stock" at Stock.java:41 Stock.take.'
    )
    assert 41.0 in found.numbers.values()


def test_the_same_error_at_another_place_in_code_is_another_finding(tmp_path: Path) -> None:
    stacks = [f"ValueError: 7\n    at {f} (/app/{f}.js:1:1)" for f in ("pay", "ship")]
    rows = (
        QUIET
        + logs("api", stacks[0], [-9, -8, 3, 4], level="ERROR")
        + logs("api", stacks[1], [3, 4], level="ERROR")
    )
    assert [
        f.details.written()["frame"] for f in log_findings(write_case(tmp_path, logs=rows))
    ] == ["app/ship.js:1 ship"]


def test_failed_requests_are_told_apart_from_those_that_succeed(tmp_path: Path) -> None:
    rows = logs("web", '10.0.0.1 "GET /cart/7 HTTP/1.1" 200 12', [-55 + i / 2 for i in range(160)])
    rows += logs("web", '10.0.0.1 "GET /cart/7 HTTP/1.1" 500 12', range(1, 9))
    (found,) = log_findings(write_case(tmp_path, logs=rows))
    assert (found.kind, found.details.written()["code"], found.details.written()["is_error"]) == (
        "log_new",
        "500",
        True,
    )


def test_an_error_that_other_services_had_before_is_worth_less(tmp_path: Path) -> None:
    known = logs("web", "no instances available for stock-db", range(-40, -5, 2), level="ERROR")
    news = logs("api", "no instances available for cache", range(1, 6), level="ERROR")
    alone = log_findings(write_case(tmp_path / "a", logs=QUIET + news))
    beside = log_findings(write_case(tmp_path / "b", logs=QUIET + known + news, topology=GRAPH))
    assert next(f.strength for f in beside if f.subject == "api") < alone[0].strength / 2


def test_new_lines_of_many_services_at_once_tell_none_of_them_apart(tmp_path: Path) -> None:
    rows, names = list(QUIET), [f"s{i}" for i in range(9)]
    for name in names:
        rows += logs(name, "ready", range(-50, 20, 5)) + logs(name, "coupon applied", range(1, 9))
    few = log_findings(
        write_case(tmp_path / "a", logs=QUIET + logs("api", "coupon applied", range(1, 9)))
    )
    many = log_findings(write_case(tmp_path / "b", logs=rows))
    assert {f.subject for f in many} == set(names)
    assert max(f.strength for f in many) < few[0].strength / 2


def test_another_service_that_a_line_names_is_told(tmp_path: Path) -> None:
    rows = QUIET + logs("api", "no instances available for stock-db", range(1, 5), level="ERROR")
    (found,) = log_findings(write_case(tmp_path, logs=rows, topology=GRAPH))
    assert found.details.written()["names"] == "stock-db"


def test_findings_come_in_the_same_order_whatever_the_order_of_services(tmp_path: Path) -> None:
    parts = [logs(s, f"{s} cannot store", range(1, 5), level="ERROR") for s in ("b", "a", "c")]
    one = log_findings(write_case(tmp_path / "x", logs=chain(*parts)))
    other = log_findings(write_case(tmp_path / "y", logs=chain(*reversed(parts))))
    assert [f.sentence for f in one] == [f.sentence for f in other]
