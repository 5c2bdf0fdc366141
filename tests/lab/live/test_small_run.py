"""The small shop, played from alert to Slack message and graded, by the documented command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faultline.analysis.case.folder import read_case
from faultline.evaluation.labels import read_label
from faultline.lab.live.__main__ import main
from tests.debian_tools import debian_binary

INCIDENTS = 1
"""More of them cost CPU and show nothing else."""


def test_hidden_incidents_are_played_graded_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prometheus = debian_binary("prometheus", "usr/bin/prometheus")
    monkeypatch.setenv("SHOP_PROMETHEUS", str(prometheus))
    options = ["--small", "--seed", "5", "--incidents", str(INCIDENTS), "--interval", "1"]
    # Customers cost CPU, and a sixth of them is enough for the alert.
    options += ["--pause", "8", "--load", "0.15", "--out", str(tmp_path), "--fault", "bad_flag"]
    status = main(options)
    out, err = capsys.readouterr()
    assert status == 0, err
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert [one["problem"] for one in lines] == [""] * INCIDENTS
    for number, one in enumerate(lines):
        assert one["seal"][:16] in err, "the seal was printed before the incident"
        folder = tmp_path / f"live-shop-{number:04d}"
        label = read_label(folder)
        assert label is not None
        assert label.subject == one["truth"]["subject"]
        assert label.change == one["guilty_change"] != "none"
        tables = read_case(folder)
        for table in ("metrics", "logs", "spans", "changes", "topology"):
            assert getattr(tables, table).height, table
        assert label.change in tables.changes["id"].to_list()
    assert "culprit first" in out
