"""Three incidents played in a real Prometheus, through the doors of the product."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faultline.evaluation.labels import read_label
from proving_ground.plain.__main__ import main
from tests.debian_tools import debian_binary


@pytest.fixture(autouse=True)
def _prometheus(monkeypatch: pytest.MonkeyPatch) -> None:
    program = debian_binary("prometheus", "usr/bin/prometheus")
    monkeypatch.setenv("SHOP_PROMETHEUS", str(program))


def test_incidents_are_written_asked_about_and_graded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results.json"
    kinds = ["slow callee", "flapping"]
    assert main(["--seeds", "3", "--kinds", *kinds, "--json", str(file)]) == 0
    results = json.loads(file.read_text())
    assert [result["kind"] for result in results] == kinds
    for result in results:
        assert result["problem"] == ""
        assert result["mark"] in ("right", "half", "wrong")
        assert result["answer"]["headline"]
        assert result["alert"]["labels"]
    assert "seconds per answer" in capsys.readouterr().out


def test_a_webhook_is_answered_in_slack(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    arguments = ["--seeds", "3", "--kinds", "callee's errors", "--door", "serve"]
    assert main([*arguments, "--keep", str(folder)]) == 0
    (played,) = folder.iterdir()
    assert json.loads((played / "played.json").read_text())["problem"] == ""
    assert (played / "bot" / "slack.txt").read_text()


def test_a_labelled_case_says_who_did_it(tmp_path: Path) -> None:
    folder = tmp_path / "labelled"
    kinds = ["slow callee", "flapping"]
    assert main(["--seeds", "3", "--kinds", *kinds, "--labelled", str(folder)]) == 0
    slow, flapping = (read_label(case) for case in sorted(folder.iterdir()))
    assert slow is not None
    assert slow.subject
    assert slow.fault == "slow callee"
    assert flapping is not None
    assert flapping.verdict == "no_active_incident"
