"""What a process of the bot has not loaded while nobody needs it: each costs memory for as long as
the bot waits."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from faultline.connectors.shared.contract.base import Check

SERVER = """
import json, os, sys
from pathlib import Path
from faultline.bot.processes.launch import refuse_what_cannot_serve
from faultline.bot.settings import load_settings
settings = load_settings(environ=json.loads(sys.argv[1]))
refuse_what_cannot_serve(settings)
nursery = set(sys.modules)
from faultline.bot.processes.first_contact import FirstContact
from faultline.bot.processes.server import build_app
from faultline.bot.store.databases import open_cases
contact = FirstContact(settings)
app = build_app(settings, contact.store, open_cases(settings), [], contact)
web = set(sys.modules)
app.routes[-1].routes
pages = set(sys.modules)
print(json.dumps([sorted(each) for each in (nursery, web, pages)]))
"""
WORKER = """
import json, os, sys
from faultline.bot.processes.launch import refuse_what_cannot_work
from faultline.bot.processes.worker import worker_components
from faultline.bot.settings import load_settings
from faultline.bot.store.databases import open_store
settings = load_settings(environ=json.loads(sys.argv[1]))
refuse_what_cannot_work(settings)
components = worker_components(settings, open_store(settings))
print(json.dumps([sorted(sys.modules)]))
os._exit(0 if sys.stdout.flush() is None else 1)
"""
SETTINGS = """
import json, sys
import faultline.bot.settings
print(json.dumps([sorted(sys.modules)]))
"""
VENDORS = {"botocore", "datadog_api_client", "openai", "pdpyras", "opentelemetry.sdk"}
TOPIC = "arn:aws:sns:eu-central-1:123456789012:alarms"
SLACK = {"FAULTLINE_SLACK__BOT_TOKEN": "xoxb-1", "FAULTLINE_SLACK__SIGNING_SECRETS": "secret"}


def loaded(program: str, directory: Path, **environ: str) -> list[set[str]]:
    """By what each stage of the program has loaded."""
    known = {"FAULTLINE_STORE__DIRECTORY": str(directory), **environ}
    command = [sys.executable, "-c", program, json.dumps(known)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path.cwd())
    return [set(each) for each in json.loads(ended.stdout)]


def test_settings_load_nothing_of_the_connectors_but_their_keys(tmp_path: Path) -> None:
    (settings,) = loaded(SETTINGS, tmp_path)
    heavy = {"polars", "numpy", "httpx", "sqlalchemy", "psycopg", "redis", "jmespath", *VENDORS}
    assert not heavy & settings
    own = {name for name in settings if name.startswith("faultline.connectors.")}
    assert not [name for name in own if name.endswith(".connector")]


def test_a_web_process_loads_pages_and_vendors_only_when_they_are_needed(tmp_path: Path) -> None:
    nursery, web, pages = loaded(SERVER, tmp_path, FAULTLINE_AWS__SNS_TOPICS=TOPIC)
    assert not {"sqlalchemy", "starlette", "dbos", "polars", "numpy", "jinja2"} & nursery
    assert not {"dbos", "polars", "numpy", "jinja2", "slack_bolt", "aiohttp"} & web
    assert (
        not {
            "psycopg",
            "cryptography",
            "httpx",
            "requests",
            "faultline.connectors.shared.contract.base",
        }
        & web
    )
    assert not {
        name
        for name in web
        if name.startswith(("faultline.bot.investigation", "faultline.bot.conversation"))
    }
    assert {"polars", "jinja2"} <= pages, "what the names are found by"
    assert "dbos" not in pages


def test_a_worker_loads_the_analysis_and_reply_targets_with_the_first_work(tmp_path: Path) -> None:
    [worker] = loaded(WORKER, tmp_path, **SLACK)
    assert "dbos" in worker
    assert not {*VENDORS, "slack_sdk", "aiohttp"} & worker
    assert (
        not {
            "faultline.analysis.diagnosis",
            "faultline.bot.answer.view",
            "faultline.bot.investigation.steps",
        }
        & worker
    )


def test_what_checks_of_credentials_say_loads_no_connector() -> None:
    # The server unpacks them from another process, and keeps what that loads.
    unpacks = "import pickle, sys; pickle.loads(bytes.fromhex(sys.argv[1])); print(*sys.modules)"
    packed = pickle.dumps((Check("prometheus", ok=True, line="reachable"),)).hex()
    command = [sys.executable, "-c", unpacks, packed]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path.cwd())
    assert "faultline.connectors.shared.contract.check" in ended.stdout.split()
    assert not {"polars", "faultline.connectors.shared.contract.base"} & set(ended.stdout.split())


@pytest.mark.parametrize("library", ["slack_bolt", "jinja2"])
def test_a_web_process_loads_slacks_listeners_with_the_first_event(
    tmp_path: Path, library: str
) -> None:
    _, web, _ = loaded(SERVER, tmp_path, **SLACK)
    assert library not in web
