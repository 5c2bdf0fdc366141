"""docs/openapi.yaml lists the application's addresses, all of them and no others, and its answers
are as it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from faultline.bot.intake.alert_sources import built_in_sources, labels_by_path
from faultline.bot.processes.server import build_app
from faultline.bot.settings import Settings
from faultline.bot.store.databases import open_cases, open_store
from tests.bot.intake.conftest import alertmanager_alert, alertmanager_group
from tests.fuzz.alert_sources import SNS_PATH, TOKEN, Bot, fuzzed_sources
from tests.fuzz.pages import document, operations

ALERT_SOURCES = "alert sources"
"""The tag of their paths in the document."""


def routes_of(folder: Path) -> set[tuple[str, str]]:
    """Path and method of every route, with every part switched on."""
    settings = Settings.model_validate(
        {
            "store": {"directory": str(folder)},
            "server": {"access_token": "x" * 20, "public_url": "https://bot.example"},
            "login": {
                "issuer": "https://issuer.example",
                "client_id": "bot",
                "default_role": "viewer",
            },
        }
    )
    store = open_store(settings)
    try:
        routes = build_app(settings, store, open_cases(settings)).routes
    finally:
        store.engine.dispose()
    found = set()
    pages = [route for mounted in routes[-1:] for route in mounted.routes]
    for route in [*routes[:-1], *pages]:
        path, methods = getattr(route, "path", ""), getattr(route, "methods", None)
        if methods is None:
            found.add((f"{path}/{{file}}", "get"))
        # What is nowhere; and the API, which makes its document itself.
        elif path != "/{path:path}" and not path.startswith("/api/"):
            found |= {(path, method.lower()) for method in methods if method != "HEAD"}
    return found


def test_the_document_lists_exactly_the_addresses_there_are(tmp_path: Path) -> None:
    assert {(path, method) for path, method, _, _ in operations()} == routes_of(tmp_path)


def test_each_operation_has_a_name_of_its_own_a_summary_and_its_path_parameters() -> None:
    names = [operation["operationId"] for _, _, operation, _ in operations()]
    assert len(names) == len(set(names))
    for path, _, operation, parameters in operations():
        assert operation["summary"]
        told = {one["name"] for one in parameters if one["in"] == "path"}
        assert told == {
            part[1:].split("}")[0] for part in path.split("/") if part.startswith("{")
        }, path


def test_references_lead_somewhere() -> None:
    whole = document()

    def follow(value: Any) -> None:
        if isinstance(value, dict):
            if "$ref" in value:
                found: Any = whole
                for part in value["$ref"].removeprefix("#/").split("/"):
                    found = found[part]
            for one in value.values():
                follow(one)
        elif isinstance(value, list):
            for one in value:
                follow(one)

    follow(whole)


def test_the_document_marks_exactly_the_paths_of_the_alert_sources() -> None:
    marked = {
        path for path, _, operation, _ in operations() if operation.get("tags") == [ALERT_SOURCES]
    }
    assert marked == set(labels_by_path(built_in_sources()))


def test_every_alert_source_is_fuzzed() -> None:
    fuzzed = {source.path for source in fuzzed_sources()} | {SNS_PATH}
    assert fuzzed == set(labels_by_path(built_in_sources()))


@pytest.mark.parametrize("source", fuzzed_sources(), ids=lambda source: source.name)
def test_answers_of_alert_sources_are_those_of_the_document(source: Any, tmp_path: Path) -> None:
    known = document()["paths"][source.path]["post"]["responses"]
    bot = Bot(tmp_path)
    try:
        for body in (json.dumps(source.samples[0]).encode(), b"nonsense"):
            for headers in ({}, source.sign(body)):
                status, _ = bot.post(source.path, body, headers)
                assert str(status) in known
    finally:
        bot.close()


def test_what_is_taken_is_told_as_the_document_says(tmp_path: Path) -> None:
    schema = document()["components"]["responses"]["Taken"]["content"]["application/json"]["schema"]
    bot = Bot(tmp_path)
    try:
        body = json.dumps(alertmanager_group(alertmanager_alert())).encode()
        answer = bot.answer("/webhooks/alertmanager", body, {"authorization": f"Bearer {TOKEN}"})
    finally:
        bot.close()
    assert answer["outcome"] in schema["properties"]["outcome"]["enum"]
    assert set(answer) <= set(schema["properties"])
    (alert,) = answer["alerts"]
    assert set(alert) == set(schema["properties"]["alerts"]["items"]["required"])
