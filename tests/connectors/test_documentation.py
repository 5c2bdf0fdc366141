"""The connectors' pages name every connector, every default query and every limit as it is."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from faultline.bot.settings import Settings
from faultline.connectors.registry import CONNECTORS
from faultline.connectors.shared.training import training_runs
from faultline.connectors.vendors.pagerduty import connector as pagerduty
from faultline.connectors.vendors.prometheus import (
    exporter_queries,
    exporters_page,
    promql,
    query_choice,
)
from faultline.connectors.vendors.prometheus.default_queries import DEFAULTS
from faultline.connectors.vendors.prometheus.exporter_metrics import built_in
from faultline.connectors.vendors.traces import connector as training_traces
from faultline.connectors.vendors.traces import files as trace_files
from faultline.connectors.vendors.wandb import connector as wandb

BY_SETTINGS = frozenset({"http_source", "mcp_servers"})
"""Connectors of which the settings say what they bring."""
DOCS = Path(__file__).resolve().parents[2] / "docs" / "connectors"


def page(name: str) -> str:
    """A connector's page."""
    return (DOCS / CONNECTORS[name].docs).read_text()


@pytest.mark.parametrize("name", CONNECTORS)
def test_every_connector_has_a_page_with_its_settings(name: str) -> None:
    text = page(name)
    assert "## Settings" in text
    assert "## What it cannot see" in text


def test_every_default_query_is_documented() -> None:
    text = page("prometheus")
    for template in DEFAULTS:
        assert f"`{template.metric}`" in text, template.metric
        assert f"`{template.signal}`" in text, template.signal
    for label in (*promql.SERVICE_LABELS, *promql.JOB_LABELS):
        assert f"`{label}`" in text, label
    assert f"at most {query_choice.ALL_SERVICES} services" in text


def test_the_page_of_exporters_is_that_of_the_data_file() -> None:
    assert exporters_page.PAGE.read_text() == exporters_page.page()
    known = {one.exporter for one in built_in()}
    assert set(exporters_page.TESTED_AGAINST) <= known
    count = len(known)
    assert f"[{count} exporters](exporters.md)" in page("prometheus")
    assert f"more than {exporter_queries.MOST_OWNERS} nodes" in exporters_page.page()


def test_documented_limits_are_the_real_ones() -> None:
    assert (
        f"{pagerduty.LIMITS.requests_per_s:g} a second and {pagerduty.LIMITS.concurrency} at once"
        in page("pagerduty")
    )
    traces = page("traces")
    assert f"{trace_files.MOST_LISTED:,} files" in traces
    assert f"{training_traces.LIMITS.deadline_s:g} seconds" in traces
    assert f"{training_traces.LIMITS.max_bytes // 1024**3} GiB" in traces
    limits = wandb.LIMITS
    text = page("wandb")
    assert f"{limits.requests_per_s:g}\nrequests a second and {limits.concurrency} at once" in text
    assert f"{limits.max_bytes // 1024**2} MiB and {limits.deadline_s:g} seconds" in text
    assert f"at most {wandb.SAMPLES * wandb.MOST_RANGES:,} samples" in text


def test_every_signal_of_wandb_is_documented() -> None:
    text = page("wandb")
    named = [
        signal
        for signal, _ in (
            *training_runs.GPU_SIGNALS.values(),
            *training_runs.SYSTEM_SIGNALS.values(),
        )
    ]
    for name in (
        *named,
        *training_runs.SIGNAL_OF.values(),
        *wandb.RUN_LABELS,
        "step_time",
        "learning_rate",
    ):
        assert f"`{name}`" in text, name


@pytest.mark.parametrize("name", [name for name in CONNECTORS if name != "recorded"])
def test_every_connector_brings_what_it_declares(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    settings = importlib.import_module(f"tests.connectors.stand_ins.{name}").settings(
        "http://127.0.0.1:1"
    )
    connector = CONNECTORS[name].configured(Settings.model_validate(settings))
    assert connector is not None
    kinds = CONNECTORS[name].kinds
    if name in BY_SETTINGS:
        assert set(connector.kinds) <= set(kinds)
    else:
        assert connector.kinds == kinds
    assert connector.name == name
