from __future__ import annotations

from pathlib import Path

from analysis.log_templates import TemplateMiner, log_findings
from tests.analysis.cases import START, logs, write_case

QUIET = logs("api", "handled request 7", [-50 + i for i in range(50)]) + logs("api", "handled request 9", range(1, 25))


def test_a_new_error_line_is_found_with_its_count_example_and_first_time(tmp_path: Path) -> None:
    rows = QUIET + logs("api", "charge 17 failed: no route to 10.0.0.9", [3, 4, 5, 6], level="ERROR")
    (found,) = log_findings(write_case(tmp_path, logs=rows))
    assert (found.kind, found.subject) == ("log_new", "api")
    assert found.numbers["lines"] == 4
    assert found.details["example"] == "charge 17 failed: no route to 10.0.0.9"
    assert found.details["is_error"] is True
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
    assert [f.details["template"] for f in found] == ["order stored"]
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


def test_the_miner_groups_lines_that_differ_in_a_word_and_stays_bounded() -> None:
    miner = TemplateMiner(limit=2)
    first = miner.add("user anna logged in from home today")
    assert miner.add("user bert logged in from work today") == first
    assert miner.text(first) == "user <*> logged in from <*> today"
    miner.add("something else entirely")
    assert miner.add("a third kind of line") == -1
