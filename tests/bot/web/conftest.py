"""Fixtures of the web tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.bot.web.sample_case import ALERT, REPORT, write_sample_case
from tests.bot.web.serving import PATIENT_S, Server, Site, serving
from tests.debian_tools import debian_binary


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server for all tests of a process."""
    running = Server()
    yield running
    running.stop()


@pytest.fixture
def site(server: Server, tmp_path: Path) -> Iterator[Site]:
    """A site without an access token, and with no investigation."""
    with serving(server, tmp_path) as running:
        yield running


@pytest.fixture
def browser(site: Site) -> Iterator[httpx.Client]:
    """An HTTP client that asks for HTML, as a browser does, and follows no redirect."""
    with httpx.Client(
        base_url=site.url, timeout=PATIENT_S, headers={"accept": "text/html"}
    ) as client:
        yield client


@pytest.fixture
def sample(site: Site) -> str:
    """The id of a finished investigation of the sample case."""
    investigation_id = site.investigate(ALERT)
    write_sample_case(site.cases / investigation_id)
    site.store.start(investigation_id)
    for stage, line in (
        ("scope", "asking datadog"),
        ("collect datadog", "1248 rows"),
        ("analyze", "7 findings"),
    ):
        site.store.add_progress(investigation_id, stage, line, key=stage)
    site.store.finish(
        investigation_id, "done", verdict="cause_found", confidence=0.86, headline=REPORT.headline
    )
    return investigation_id


@pytest.fixture(scope="session")
def chromium() -> Path:
    """A real browser; where none can be had the test is skipped, but never in CI."""
    try:
        return debian_binary("chromium", "/usr/bin/chromium")
    except pytest.skip.Exception as reason:
        if os.environ.get("CI") == "true":
            pytest.fail(
                f"browser tests need chromium on PATH (apt-get install -y chromium): {reason}"
            )
        raise
