"""Known failures in a case's logs: told once, against the baseline, with what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.diagnosis import diagnose
from faultline.analysis.logs.signature_findings import KIND, logged_findings
from faultline.analysis.vocabulary import Finding
from tests.analysis.cases import START, logs, series, write_case

QUIET = logs("api", "handled request 7", range(-55, 28))
FULL = "write /data/wal/17.log: no space left on device"


def failures(folder: Path, rows: list[dict[str, Any]], **given: Any) -> list[Finding]:
    return [f for f in logged_findings(write_case(folder, logs=rows, **given)) if f.kind == KIND]


def test_a_known_failure_is_told_with_its_meaning_count_onset_and_what_to_do(
    tmp_path: Path,
) -> None:
    (found,) = logged_findings(write_case(tmp_path, logs=QUIET + logs("api", FULL, [3, 4, 5, 6])))
    assert (found.kind, found.subject, found.details.written()["signature"]) == (
        KIND,
        "api",
        "disk_full",
    )
    assert found.sentence.startswith(
        "api logs that the disk is full: 4 lines, none in the baseline: "
    )
    assert found.numbers["lines"] == 4
    assert "Free space" in found.details.fix
    assert found.onset is not None
    assert (found.onset - START).total_seconds() == 180


def test_one_line_of_a_clear_failure_says_it_all_and_one_of_another_does_not(
    tmp_path: Path,
) -> None:
    rows = QUIET + logs(
        "node-3", "NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus.", [2]
    )
    (lost,) = failures(tmp_path / "a", rows)
    assert lost.strength > 0.7
    (refused,) = failures(tmp_path / "b", QUIET + logs("api", "connect: connection refused", [2]))
    assert refused.strength < 0.3


def test_of_the_lines_of_one_failure_the_longest_is_quoted(tmp_path: Path) -> None:
    rows = QUIET + logs("web", "Error: ErrImagePull", range(1, 9))
    rows += logs("web", 'Failed to pull image "web:v9": manifest unknown', [2])
    (found,) = failures(tmp_path, rows)
    assert found.numbers["lines"] == 9
    assert found.sentence.endswith(': "Failed to pull image "web:v9": manifest unknown".')


def test_a_failure_that_was_as_frequent_before_is_no_finding(tmp_path: Path) -> None:
    assert failures(tmp_path, QUIET + logs("api", FULL, range(-55, 28))) == []


def test_a_failure_that_became_much_more_frequent_is_a_surge(tmp_path: Path) -> None:
    (found,) = failures(
        tmp_path,
        QUIET + logs("api", FULL, [-40, -20]) + logs("api", FULL, [i / 4 for i in range(80)]),
    )
    assert found.effect_unit == "x"
    assert found.onset is None
    assert f"80 lines, {found.numbers['ratio']:g} times the baseline's rate" in found.sentence


def test_new_wording_of_a_failure_that_was_there_before_is_no_finding(tmp_path: Path) -> None:
    before = logs("api", "rotate failed: no space left on device", range(-55, 0))
    assert failures(tmp_path, QUIET + before + logs("api", FULL, range(1, 20))) == []


def test_lines_of_one_template_are_kept_apart_by_the_number_that_says_what_failed(
    tmp_path: Path,
) -> None:
    rows = QUIET + logs("node-3", "NVRM: Xid (PCI:0000:3b:00): 48, pid=7, error", [2, 3])
    rows += logs("node-3", "NVRM: Xid (PCI:0000:3b:00): 31, pid=7, error", [4])
    rows += logs("api", '"GET /v1/items HTTP/1.1" 200 17', range(-55, 28)) + logs(
        "api", '"GET /v1/items HTTP/1.1" 429 17', range(1, 9)
    )
    found = {f.details.written()["signature"]: f for f in failures(tmp_path, rows)}
    assert {name: f.numbers["lines"] for name, f in found.items()} == {
        "xid_48": 2,
        "xid_31": 1,
        "http_429": 8,
    }
    assert "Xid 48, double-bit ECC error" in found["xid_48"].sentence
    assert found["xid_48"].numbers["hardware_code_1"] == 48


def test_a_level_does_not_hide_a_failure(tmp_path: Path) -> None:
    rows = QUIET + logs(
        "web", "Back-off restarting failed container web in pod web-7f9c", [1, 2, 3], level="Normal"
    )
    assert [f.details.written()["signature"] for f in failures(tmp_path, rows)] == ["crash_loop"]


@pytest.mark.parametrize(
    "text",
    ["\u202e\x1b[31mno space left on device\r\n<!channel>", "no space left on device\x00\u200b"],
)
def test_control_characters_of_a_line_do_not_reach_the_sentence(tmp_path: Path, text: str) -> None:
    (found,) = failures(tmp_path, QUIET + logs("a\u202epi\n", text, [1, 2, 3]))
    assert all(c.isprintable() for c in found.sentence)
    assert all(c.isprintable() for c in found.details.written()["example"])


def test_every_number_of_the_sentence_stands_in_the_numbers(tmp_path: Path) -> None:
    rows = (
        QUIET
        + logs("node", "NVRM: Xid (PCI:0000:3b:00): 171, pid=7", [1])
        + logs("api", "errno 24: too many open files", [2])
    )
    for found in failures(tmp_path, rows):
        quoted = re.findall(r"(?<![\w.])\d+(?:\.\d+)?", found.sentence)
        assert quoted
        assert {float(n) for n in quoted} <= set(found.numbers.values())


def test_the_report_says_what_to_do_about_the_failure(tmp_path: Path) -> None:
    case = write_case(
        tmp_path,
        alert={"service": "web", "signal": "error_ratio"},
        topology=[{"caller": "web", "callee": "db"}],
        metrics=series("web", "error_ratio", 0.01, 0.6, onset=2),
        logs=logs("db", "checkpoint complete", range(-55, 28))
        + logs("db", "PANIC: could not write to file: No space left on device", range(2, 20))
        + logs("web", "handled", range(-55, 28))
        + logs("web", "dial tcp 10.0.0.5:5432: connect: connection refused", range(2, 25)),
    )
    first = diagnose(case).causes[0]
    assert (first.subject, first.kind) == ("db", "known_failure")
    assert first.summary.startswith("db logs that the disk is full: 18 lines, none in the baseline")
    assert first.next_step == "Free space, or write checkpoints, logs and data elsewhere."


def test_what_follows_from_a_callee_does_not_accuse_the_caller(tmp_path: Path) -> None:
    rows = QUIET + logs("api", "dial tcp 10.0.0.5:5432: connect: connection refused", range(2, 25))
    (found,) = failures(tmp_path, rows)
    assert found.details.written()["own"] is False
    assert found.details.written()["signature"] == "connection_refused"


def test_lines_that_show_a_failure_are_not_told_as_templates_again(tmp_path: Path) -> None:
    rows = (
        QUIET
        + logs("api", FULL, range(1, 9), level="ERROR")
        + logs("api", "order 7 lost", range(1, 9), level="ERROR")
    )
    kinds = [
        (f.kind, f.details.written().get("template"))
        for f in logged_findings(write_case(tmp_path, logs=rows))
    ]
    assert sorted(kind for kind, _ in kinds) == [KIND, "log_new"]
    assert ("log_new", "order <*> lost") in kinds


def test_lines_of_no_service_accuse_nobody(tmp_path: Path) -> None:
    case = write_case(tmp_path, logs=QUIET + logs(None, FULL, [1, 2, 3]))
    assert [f.subject for f in logged_findings(case)] == ["unknown service"]
    assert diagnose(case).causes == ()


def test_a_failure_that_the_alert_names_is_a_finding_unless_the_logs_tell_it(
    tmp_path: Path,
) -> None:
    alert = {"service": "web", "title": "web-7f9c OOMKilled"}
    (found,) = failures(tmp_path / "a", [], alert=alert)
    assert (found.subject, found.details.written()["signature"]) == (
        "web",
        "container_out_of_memory",
    )
    assert (
        found.sentence
        == "web's alert says that a container was killed for using more memory than its limit."
    )
    told = failures(
        tmp_path / "b",
        logs("web", "ok", range(-55, 28)) + logs("web", FULL, [1, 2, 3]),
        alert=alert,
    )
    assert [f.details.written()["signature"] for f in told] == ["disk_full"]
    follows = {"service": "web", "title": "web: connection refused"}
    assert failures(tmp_path / "c", [], alert=follows) == []


def test_a_case_without_logs_has_no_findings_of_logs(tmp_path: Path) -> None:
    assert logged_findings(write_case(tmp_path)) == []


def test_a_failure_that_only_the_alert_names_counts_less(tmp_path: Path) -> None:
    lost = "NVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen off the bus."
    alert = {"service": "node-3", "title": lost}
    (told,) = failures(tmp_path / "alert", [], alert=alert)
    (logged,) = failures(tmp_path / "logs", QUIET + logs("node-3", lost, range(1, 29)))
    assert 0.5 * logged.strength < told.strength < 0.75 * logged.strength
