"""The pages of connectors that bring nothing but changes name settings and limits as they are."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from faultline.bot.settings import Settings, is_secret, secret_variable
from faultline.connectors.registry import CONNECTORS
from faultline.connectors.shared.changes.change_feeds import ChangeFeeds
from faultline.connectors.shared.contract.plugins import load_object
from faultline.connectors.shared.settings.connector_settings import (
    ConnectorSettings,
    Limits,
    SelfHostedSettings,
)

DOCS = Path(__file__).resolve().parents[2] / "docs" / "connectors"
FLAGS = ("launchdarkly", "unleash", "flagsmith", "statsig")
CI = ("jenkins", "buildkite", "circleci", "azuredevops", "bitbucket")


@pytest.mark.parametrize("name", [*FLAGS, *CI])
def test_every_setting_is_documented(name: str) -> None:
    said = (DOCS / CONNECTORS[name].docs).read_text()
    section = Settings.model_fields[name].annotation
    assert isinstance(section, type)
    told_elsewhere = set(ConnectorSettings.model_fields)
    if issubclass(section, SelfHostedSettings):
        told_elsewhere |= set(SelfHostedSettings.model_fields) - {"url", "token"}
    for key in section.model_fields:
        shown = secret_variable(name, key) if is_secret(section, key) else f"{name}.{key}"
        assert key in told_elsewhere or f"`{shown}`" in said, shown


@pytest.mark.parametrize("name", [*FLAGS, *CI])
def test_documented_limits_are_the_real_ones(name: str) -> None:
    limits: Limits = _connector(name).usual_limits
    said = " ".join((DOCS / CONNECTORS[name].docs).read_text().split())
    assert limits.max_bytes == 16 * 1024 * 1024
    assert "16 MiB and 20 seconds per investigation" in said
    assert limits.deadline_s == 20 or f"CircleCI {limits.deadline_s:g} seconds" in said
    assert f"{limits.requests_per_s:g} requests a second" in said


def test_documented_numbers_are_the_real_ones() -> None:
    said = (DOCS / "feature-flags.md").read_text()
    assert f"the latest {_most('launchdarkly', 'PER_PAGE')} of LaunchDarkly" in said
    assert f"{_most('unleash', 'PER_PAGE'):,} events of Unleash" in said
    assert f"{_most('flagsmith', 'PER_PAGE')} records of a project of Flagsmith" in said
    assert f"{_most('statsig', 'PER_PAGE')} entries of Statsig" in said
    said = (DOCS / "ci.md").read_text()
    assert f"; {_most('buildkite', 'PER_PAGE')} builds |" in said
    assert f"; {_most('azuredevops', 'PER_PAGE')} builds and" in said
    assert f"; {_most('bitbucket', 'PER_PAGE')} pipelines and" in said


def _most(name: str, page: str) -> int:
    module = importlib.import_module(_connector(name).__module__)
    return int(getattr(module, page) * module.MOST_PAGES)


def _connector(name: str) -> type[ChangeFeeds[Any]]:
    build = CONNECTORS[name].build
    assert isinstance(build, str)
    connector = load_object(build.removesuffix(".build"))
    assert isinstance(connector, type)
    assert issubclass(connector, ChangeFeeds)
    return connector
