"""A GraphQL connector can send its own query documents and nothing else."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx
import pytest

from faultline.analysis.errors import BudgetExceeded, ConnectorError
from faultline.connectors.shared.http.graphql import GraphQLQuery, GraphQLReads, GraphQLSession
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.circuit_breaker import Deadline
from faultline.connectors.vendors.wandb.queries import QUERIES
from tests.connectors.local_http import LocalServer, Reply

NAMES = GraphQLQuery("Names", "query Names($of: String!) { project(name: $of) { name } }")
OTHER = GraphQLQuery("Other", "query Other($of: String!) { project(name: $of) { id } }")
LIMITS = Limits(deadline_s=20, requests_per_s=1000)


def reads(server: LocalServer, limits: Limits = LIMITS) -> GraphQLReads:
    return GraphQLReads("loopback", server.url, "/graphql", [NAMES], limits=limits)


async def ask(
    server: LocalServer, query: GraphQLQuery = NAMES, variables: dict[str, Any] | None = None
) -> Any:
    async with reads(server).open() as session:
        return await session.ask(query, variables or {"of": "a"}, type=dict[str, Any])


@pytest.mark.parametrize(
    "text",
    [
        "mutation Names { deleteRun(id: 1) { ok } }",
        "{ project { name } }",
        "query Names { a } mutation Away { deleteRun(id: 1) { ok } }",
        "query Names { a } { b }",
        "query Names { a } query Other { b }",
        "query Names { a } subscription Other { b }",
        "query Names { a } fragment Other on Run { b }",
        'query Names { run(name: "x") { name } }',
        "query Names { a # } \n }",
        "query Names @live { a }",
        "query Names { a } }",
        "query Names { a ",
        "query Other { a }",
        " query Names { a }",
        "query Names { mutation }",
        "query Names { query: }",
    ],
)
def test_a_document_that_is_more_than_one_plain_query_cannot_be_made(text: str) -> None:
    with pytest.raises(ValueError, match="Names"):
        GraphQLQuery("Names", text)


def test_an_argument_may_be_called_query() -> None:
    assert GraphQLQuery("Names", "query Names($q: Nrql!) { nrql(query: $q) { results } }")


def test_the_body_is_the_document_and_the_values_are_variables(server: LocalServer) -> None:
    server.on("/graphql", Reply({"data": {"project": {"name": "x"}}}))
    hostile = '") { name } } mutation Away { deleteRun(id: "1'
    assert asyncio.run(ask(server, variables={"of": hostile})) == {"project": {"name": "x"}}
    (asked,) = server.asked
    assert json.loads(asked.body) == {"query": NAMES.text, "variables": {"of": hostile}}
    assert (asked.method, asked.path) == ("POST", "/graphql")


def test_a_query_that_was_not_declared_is_not_sent(server: LocalServer) -> None:
    with pytest.raises(ConnectorError, match="own queries only"):
        asyncio.run(ask(server, OTHER))
    assert server.asked == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/graphql", None),
        ("PUT", "/graphql", {"query": NAMES.text, "variables": {}}),
        ("DELETE", "/graphql", None),
        ("POST", "/elsewhere", {"query": NAMES.text, "variables": {}}),
        ("POST", "/graphql?query=mutation", {"query": NAMES.text, "variables": {}}),
        (
            "POST",
            "/graphql",
            {"query": "mutation Away { deleteRun(id: 1) { ok } }", "variables": {}},
        ),
        ("POST", "/graphql", {"query": NAMES.text + " ", "variables": {}}),
        ("POST", "/graphql", {"query": NAMES.text, "variables": {}, "operationName": "Away"}),
        ("POST", "/graphql", [{"query": NAMES.text, "variables": {}}]),
        ("POST", "/graphql", None),
    ],
)
def test_whatever_else_is_built_with_the_client_is_refused_before_it_is_sent(
    server: LocalServer, method: str, path: str, body: Any
) -> None:
    async def send() -> None:
        async with reads(server).open() as session:
            client: httpx.AsyncClient = session._client
            await client.request(method, server.url + path, json=body)

    with pytest.raises(ConnectorError, match="own queries only"):
        asyncio.run(send())
    assert server.asked == []


def test_every_query_that_wandb_is_asked_is_one_plain_query() -> None:
    assert len({q.name for q in QUERIES}) == len(QUERIES)
    assert all(GraphQLQuery(q.name, q.text) == q for q in QUERIES)
    assert not any("mutation" in q.text.lower() for q in QUERIES)


def test_errors_in_an_answer_are_said_on_one_line(server: LocalServer) -> None:
    server.on(
        "/graphql",
        Reply({"data": None, "errors": [{"message": "no such\n\x1b[31mfield " + "x" * 900}]}),
    )
    with pytest.raises(ConnectorError) as caught:
        asyncio.run(ask(server))
    assert "the query was not answered: no such" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b"{}", b"null", b'{"data": null}', b'{"data": []}', b'{"data": 7}']
)
def test_an_answer_that_is_none_is_one_error(server: LocalServer, body: bytes) -> None:
    server.on("/graphql", Reply(body))
    with pytest.raises(ConnectorError):
        asyncio.run(ask(server))


def test_a_used_up_limit_is_tried_again_when_it_resets(server: LocalServer) -> None:
    used_up = Reply(b"", status=429, headers={"RateLimit-Remaining": "0", "RateLimit-Reset": "1"})
    server.on("/graphql", used_up, Reply({"data": {"a": 1}}))
    begun = time.monotonic()
    assert asyncio.run(ask(server)) == {"a": 1}
    assert time.monotonic() - begun >= 1


def test_a_limit_that_the_answer_used_up_is_waited_for_or_said(server: LocalServer) -> None:
    last = Reply(
        {"data": {"a": 1}}, headers={"RateLimit-Remaining": "0", "RateLimit-Reset": "3600"}
    )
    server.on("/graphql", last)

    async def twice() -> None:
        async with reads(server).open(Deadline.after(5)) as session:
            await session.ask(NAMES, {"of": "a"}, type=dict[str, Any])
            await session.ask(NAMES, {"of": "a"}, type=dict[str, Any])

    with pytest.raises(ConnectorError, match="rate limit"):
        asyncio.run(twice())
    assert len(server.asked) == 1


def test_an_answer_without_end_is_cut_off(server: LocalServer) -> None:
    server.on("/graphql", Reply(b'{"data": "' + b"x" * 100_000))

    async def big() -> None:
        async with reads(server, Limits(max_bytes=10_000, requests_per_s=1000)).open() as session:
            await session.ask(NAMES, {"of": "a"}, type=dict[str, Any])

    with pytest.raises(BudgetExceeded):
        asyncio.run(big())


def test_redirects_are_not_followed(server: LocalServer) -> None:
    server.on("/graphql", Reply(b"", status=307, headers={"Location": f"{server.url}/elsewhere"}))
    with pytest.raises(ConnectorError, match="redirect"):
        asyncio.run(ask(server))
    assert server.paths() == ["/graphql"]


def test_a_session_gets_nothing_by_path(server: LocalServer) -> None:
    async def get() -> None:
        async with reads(server).open() as session:
            await session.get("/graphql", type=dict)

    with pytest.raises(ConnectorError, match="own queries only"):
        asyncio.run(get())
    assert server.asked == []


def test_a_session_offers_no_other_way_to_send() -> None:
    assert {name for name in dir(GraphQLSession) if not name.startswith("_")} <= {
        "ask",
        "body",
        "get",
        "deadline",
        "text",
    }
