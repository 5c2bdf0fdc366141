"""That names don't resolve, by what several services log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.states.weighing import state_findings
from faultline.analysis.vocabulary import Finding
from tests.analysis.cases import logs, write_case
from tests.analysis.states.incidents import fact

NO_ANSWER = {
    "web": 'Get "http://cart": dial tcp: lookup cart on 10.96.0.10:53: read udp: i/o timeout',
    "cart": 'could not translate host name "db": Temporary failure in name resolution',
    "pay": "lookup bank.example on 10.96.0.10:53: server misbehaving",
}
NO_SUCH_NAME = "dial tcp: lookup bank.example on 10.96.0.10:53: no such host"


def found(folder: Path, rows: list[dict[str, Any]], **more: Any) -> list[Finding]:
    evidence = [{"id": "E1", "kind": "logs", "source": "loki", "query": "logs of the services"}]
    lines = [{**row, "evidence": "E1"} for row in rows]
    return state_findings(write_case(folder, logs=lines, evidence=evidence, **more))


def lines_of(services: list[str], minutes: range) -> list[dict[str, Any]]:
    rows = []
    for service in services:
        rows += logs(service, NO_ANSWER[service], minutes)
    return rows


def test_lookups_of_several_services_without_an_answer_accuse_the_name_server(
    tmp_path: Path,
) -> None:
    (finding,) = found(tmp_path, lines_of(["web", "cart", "pay"], range(1, 6)))
    assert finding.subject == "DNS"
    assert finding.details.written()["services"] == ["cart", "pay", "web"]
    assert finding.evidence == ("E1",)


@pytest.mark.parametrize(
    "rows",
    [
        lines_of(["web"], range(1, 9)),
        lines_of(["web", "cart"], range(1, 3)),
        lines_of(["web", "cart"], range(-50, 9)),
        [row for name in ("web", "cart") for row in logs(name, NO_SUCH_NAME, range(1, 9))],
    ],
    ids=["one service", "two lines", "as often before", "a name that does not exist"],
)
def test_less_accuses_no_name_server(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    assert found(tmp_path, rows) == []


def test_a_name_server_with_metrics_is_accused_by_them(tmp_path: Path) -> None:
    states = [
        fact("DNS server", "coredns", "name_resolution_failing", 0, service="web"),
        fact("DNS server", "coredns", "name_resolution_failing", 0, service="cart"),
    ]
    (finding,) = found(tmp_path, lines_of(["web", "cart"], range(1, 6)), states=states)
    assert finding.subject == "coredns"
