"""Two alerts about one incident, sent to a whole bot that asks a real Prometheus."""

from __future__ import annotations

import pytest

from proving_ground.plain.second_alerts import Combination, main
from tests.debian_tools import debian_binary


@pytest.fixture(autouse=True)
def _prometheus(monkeypatch: pytest.MonkeyPatch) -> None:
    program = debian_binary("prometheus", "usr/bin/prometheus")
    monkeypatch.setenv("SHOP_PROMETHEUS", str(program))


def test_a_combination_says_what_it_is() -> None:
    assert str(Combination("twin", "at once", "mesh")) == "twin; at once; calls: mesh"


def test_the_alerts_of_one_incident_are_one_and_a_namesake_in_staging_is_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    chosen = ["--pairs", "callee, caller", "far caller, callee", "twin", "--moments", "at once"]
    assert main(["--seed", "1", "--calls", "client metrics", *chosen]) == 0
    assert capsys.readouterr().out.startswith("3 of 3 right, 0 with answers that contradict")


def test_where_nobody_knows_the_calls_no_answer_contradicts_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    chosen = ["--pairs", "callee, caller", "--moments", "at once", "after the answer"]
    assert main(["--seed", "1", "--calls", "unknown", *chosen]) == 0
    assert capsys.readouterr().out.startswith("2 of 2 right, 0 with answers that contradict")
