"""What is sent to trackers fits their published descriptions: Linear's schema, and the OpenAPI
documents of Jira Cloud, GitHub and GitLab."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from faultline.bot.answer.targets.tickets import linear
from faultline.bot.store.store import Store
from faultline.loopback.server import serve_in_thread
from tests.bot.answer.targets.answers import a_store
from tests.bot.answer.targets.fake_code_hosts import FakeCodeHosts
from tests.bot.answer.targets.fake_trackers import FakeTrackers
from tests.bot.answer.targets.test_reverts import asked as ask_for_revert
from tests.bot.answer.targets.test_reverts import opened as open_reverts
from tests.bot.answer.targets.test_reverts import outcome as blamed_outcome
from tests.bot.answer.targets.test_tickets import asked, opened, outcome


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return a_store(tmp_path)


@pytest.fixture
def trackers() -> Iterator[FakeTrackers]:
    fake = FakeTrackers()
    fake.url, stop = serve_in_thread(fake.app)
    yield fake
    stop()


def sent(name: str, trackers: FakeTrackers, store: Store) -> list[tuple[str, str, Any]]:
    """Every request while a ticket is made, lost, found and edited."""
    tickets = opened(name, trackers, store)
    investigation = asked(store, name)

    async def story() -> None:
        since = investigation.accepted_at
        key = tickets._key(investigation)
        await tickets.answer(outcome(investigation))
        assert await tickets.find(key, key, since)
        await tickets.answer(outcome(investigation, "another"))

    asyncio.run(story())
    return trackers.requests


def document(shared: Path, file: str) -> dict[str, Any]:
    raw = (shared / "specs" / file).read_bytes()
    text = gzip.decompress(raw).decode() if file.endswith(".gz") else raw.decode()
    read = yaml.safe_load if ".yaml" in file else json.loads
    return dict(read(text))


def described(spec: dict[str, Any], method: str, path: str) -> dict[str, Any] | None:
    """The operation of a request."""
    for pattern, operations in spec["paths"].items():
        fits = re.fullmatch(re.sub(r"\{[^}]+\}", "[^/]+", pattern), path)
        if fits and method.lower() in operations:
            return dict(operations[method.lower()])
    return None


def whole(schema: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    """A schema with what it refers to; all of a document takes a validator minutes."""
    found: dict[str, Any] = {}
    left = [schema]
    while left:
        for name in re.findall(r"#/components/schemas/([^'\"]+)", json.dumps(left.pop())):
            if name not in found:
                found[name] = spec["components"]["schemas"][name]
                left.append(found[name])
    return {**schema, "components": {"schemas": found}}


@pytest.mark.parametrize(
    ("name", "file", "base", "unknown"),
    [
        # The search's successor is newer than the document.
        ("jira_issues", "jira-cloud.json.gz", "/jira", {"/rest/api/3/search/jql"}),
        ("github_issues", "github.trim.json", "/github", set()),
        ("gitlab_issues", "gitlab-partial.yaml", "/gitlab/api", set()),
    ],
)
def test_requests_are_those_of_the_description(
    name: str,
    file: str,
    base: str,
    unknown: set[str],
    trackers: FakeTrackers,
    store: Store,
    shared: Path,
) -> None:
    spec = document(shared, file)
    checked = 0
    for method, asked_for, body in sent(name, trackers, store):
        path = asked_for.removeprefix(base)
        if name == "gitlab_issues":
            path = path.replace("acme/ops", "acme%2Fops")
        if path in unknown:
            continue
        operation = described(spec, method, path)
        assert operation is not None, (method, path)
        if body is None:
            continue
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        Draft202012Validator(whole(schema, spec)).validate(body)
        checked += 1
    assert checked == 2


def test_linears_schema_has_what_is_asked(
    trackers: FakeTrackers, store: Store, shared: Path
) -> None:
    from graphql import build_schema, parse, validate

    schema = build_schema(
        gzip.decompress((shared / "specs/linear.graphql.gz").read_bytes()).decode(),
        assume_valid=True,
    )
    for query in (linear.VIEWER, linear.FIND, linear.CREATE, linear.UPDATE):
        assert validate(schema, parse(query)) == []
    for _, _, body in sent("linear_issues", trackers, store):
        for field, given in body["variables"].items():
            if field == "input":
                name = "IssueCreateInput" if "teamId" in given else "IssueUpdateInput"
                known = schema.type_map[name].fields  # type: ignore[attr-defined]
                assert set(given) <= set(known)


@pytest.mark.parametrize(
    ("name", "file", "base"),
    [
        ("github_reverts", "github.trim.json", "/api/v3"),
        ("gitlab_reverts", "gitlab-connector-partial.swagger.json", "/api/v4"),
    ],
)
def test_requests_for_reverts_are_those_of_the_description(
    name: str, file: str, base: str, store: Store, shared: Path
) -> None:
    # The description of GitLab is a part: it lacks these, which its Commits API documents.
    unknown = re.compile(
        r"/projects/[^/]+(|/repository/(commits|branches)/.+|/merge_requests/\d+(/commits)?)"
    )
    hosts = FakeCodeHosts()
    hosts.url, stop = serve_in_thread(hosts.app)
    try:
        link = hosts.link(name)
        reverts = open_reverts(name, hosts, store)
        investigation = ask_for_revert(store, name, link)

        async def story() -> None:
            await reverts.answer(blamed_outcome(investigation, link))
            await reverts.find(link, "k", investigation.accepted_at)
            await reverts.answer(blamed_outcome(investigation, link, "another"))

        asyncio.run(story())
    finally:
        stop()
    spec = document(shared, file)
    checked = []
    for method, asked_for, body in hosts.requests:
        path = asked_for.removeprefix(base)
        if path == "/api/graphql" or (name == "gitlab_reverts" and unknown.fullmatch(path)):
            continue
        operation = described(spec, method, path)
        if operation is None and name == "gitlab_reverts" and method == "GET":
            continue
        assert operation is not None, (method, path)
        if body is not None and "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            Draft202012Validator(whole(schema, spec)).validate(body)
        if body is not None and "parameters" in operation and "requestBody" not in operation:
            wanted = {one["name"] for one in operation["parameters"] if one.get("required")}
            assert wanted - {"id"} <= set(body), (method, path)
        checked.append(method)
    assert checked.count("POST") == {"github_reverts": 0, "gitlab_reverts": 2}[name]
    assert "PATCH" in checked or name == "gitlab_reverts"
