"""What a process of the bot has not loaded while nobody needs it: each costs memory for as long as
the bot waits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

WAITS = """
import json, os, sys
from pathlib import Path
from bot.processes.launch import refuse_what_cannot_serve, refuse_what_cannot_work
from bot.settings import load_settings
settings = load_settings(environ=json.loads(sys.argv[1]))
refuse_what_cannot_serve(settings)
nursery = set(sys.modules)
from bot.processes.first_contact import FirstContact
from bot.processes.server import build_app
from bot.store.opening import open_cases
contact = FirstContact(settings)
app = build_app(settings, contact.store, open_cases(settings), [], contact)
web = set(sys.modules)
app.routes[-1].routes
pages = set(sys.modules)
print(json.dumps([sorted(each) for each in (nursery, web, pages)]))
"""
VENDORS = {"botocore", "datadog_api_client", "openai", "pdpyras", "opentelemetry.sdk"}
SLACK = {"FAULTLINE_SLACK__BOT_TOKEN": "xoxb-1", "FAULTLINE_SLACK__SIGNING_SECRETS": "secret"}


def loaded(directory: Path, **environ: str) -> list[set[str]]:
    """By what both load, the web process, it with pages, and a worker."""
    known = {"FAULTLINE_STORE__DIRECTORY": str(directory), **environ}
    command = [sys.executable, "-c", WAITS, json.dumps(known)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path.cwd())
    return [set(each) for each in json.loads(ended.stdout)]


def test_a_web_process_loads_pages_and_vendors_only_when_they_are_needed(tmp_path: Path) -> None:
    both, web, pages, worker = loaded(tmp_path)
    assert not {"starlette", "dbos", "polars", "numpy", "jinja2"} & both
    assert not {"dbos", "polars", "numpy", "jinja2", "slack_bolt", "aiohttp"} & web
    assert not {name for name in web if name.startswith(("bot.investigation", "bot.conversation"))}
    assert {"polars", "jinja2"} <= pages, "what the names are found by"
    assert "dbos" not in pages
    assert not VENDORS & worker
    assert "analysis.diagnosis" not in worker


@pytest.mark.parametrize("library", ["slack_bolt", "jinja2"])
def test_a_web_process_loads_slacks_listeners_with_the_first_event(
    tmp_path: Path, library: str
) -> None:
    _, web, _, _ = loaded(tmp_path, **SLACK)
    assert library not in web
