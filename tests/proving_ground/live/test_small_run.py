"""The small shop, played from alert to Slack message and graded, by the documented command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from analysis.case.folder import read_case
from evaluation.labels import read_label
from tests.debian_tools import debian_binary

INCIDENTS = 1
"""More of them cost CPU and show nothing else."""


def test_hidden_incidents_are_played_graded_and_kept(tmp_path: Path) -> None:
    prometheus = debian_binary("prometheus", "usr/bin/prometheus")
    command = [sys.executable, "-m", "proving_ground.live", "--small", "--seed", "5"]
    command += ["--incidents", str(INCIDENTS), "--interval", "1", "--pause", "8"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path), "--fault", "bad_flag"],
        env={**os.environ, "SHOP_PROMETHEUS": str(prometheus)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [one["problem"] for one in lines] == [""] * INCIDENTS
    for number, one in enumerate(lines):
        assert one["seal"][:16] in done.stderr, "the seal was told before the incident"
        folder = tmp_path / f"live-shop-{number:04d}"
        label = read_label(folder)
        assert label is not None
        assert label.subject == one["truth"]["subject"]
        assert label.change == one["guilty_change"] != "none"
        tables = read_case(folder)
        for table in ("metrics", "logs", "spans", "changes", "topology"):
            assert getattr(tables, table).height, table
        assert label.change in tables.changes["id"].to_list()
    assert "culprit first" in done.stdout
