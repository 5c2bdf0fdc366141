"""What the logs tell of a known failure passes the guard word for word."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from faultline.analysis.diagnosis import diagnose
from faultline.bot.answer.writer.built_in import word
from faultline.bot.answer.writer.guard import keep_supported
from tests.analysis.cases import logs, series, write_case

LINES = tomllib.loads(
    (Path(__file__).parents[3] / "analysis" / "logs" / "failure_lines.toml").read_text()
)


@pytest.mark.parametrize(
    "name",
    [
        "xid",
        "sxid_fatal",
        "nccl_watchdog_timeout",
        "disk_full",
        "http_429",
        "certificate_expired",
        "mysql_deadlock",
    ],
)
def test_the_report_on_a_known_failure_keeps_every_sentence(tmp_path: Path, name: str) -> None:
    case = write_case(
        tmp_path,
        alert={"service": "web", "signal": "error_ratio"},
        metrics=series("web", "error_ratio", 0.01, 0.6, onset=2),
        logs=logs("web", "handled", range(-55, 28))
        + logs(
            "web", LINES[name][0], range(2, 20), attributes={"host.name": "gke-prod-pool-3-a1b2"}
        ),
    )
    found = diagnose(case)
    report = word(found, case.alert, ())
    said = ("web's log", "web logs")
    assert any(words in claim.text for claim in report.claims for words in said)
    assert keep_supported(report, found, case.alert).dropped == ()
