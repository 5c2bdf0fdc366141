"""`faultline lab` without a shop: the list, and one line about what is wrong."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from faultline.analysis.errors import FaultlineError, SettingsError
from faultline.bot.cli.main import app
from faultline.lab.live.lab import LabOptions, run_lab
from faultline.lab.shop.faults import FAULTS


def test_the_list_names_every_fault() -> None:
    shown = CliRunner().invoke(app, ["lab", "--list"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    for fault in FAULTS.values():
        assert fault.name in shown.output
        assert fault.title in shown.output


def test_an_unknown_fault_is_refused_before_anything_starts() -> None:
    with pytest.raises(SettingsError, match="there is no fault 'gremlins'"):
        run_lab(LabOptions(fault="gremlins"))


def test_a_fault_that_needs_a_store_is_refused_by_the_small_shop() -> None:
    with pytest.raises(SettingsError, match="the small shop has no fault 'database_lock'"):
        run_lab(LabOptions(fault="database_lock", small=True))


def test_without_prometheus_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("SHOP_PROMETHEUS", raising=False)
    with pytest.raises(FaultlineError, match="Prometheus is missing; install it"):
        run_lab(LabOptions(small=True))
