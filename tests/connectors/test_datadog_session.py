"""What is sent to Datadog: reading calls alone, within its limits."""

from __future__ import annotations

import gzip
import importlib
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from faultline.analysis.errors import BudgetExceeded, ConnectorError
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.circuit_breaker import Deadline
from faultline.connectors.vendors.datadog import session as datadog_session
from faultline.connectors.vendors.datadog.calls import (
    CALLS,
    LOGS,
    MONITOR,
    MONITORS,
    SPANS,
    TRACE,
    Call,
    call_of,
)
from faultline.connectors.vendors.datadog.session import (
    DatadogAccess,
    DatadogSession,
    allowances_of,
)
from tests.connectors.local_http import LocalServer, Reply

LIMITS = Limits(requests_per_s=1000)
LOG = {"filter": {"query": "x"}}


@pytest.fixture
def session(server: LocalServer) -> Iterator[DatadogSession]:
    """A session with the local server."""
    opened = DatadogAccess(server.url, "a" * 32, "b" * 40, LIMITS).session(Deadline.after(10))
    yield opened
    opened.close()


def client_of(call: Call) -> type[Any]:
    """The class of the client that a call is a method of."""
    module, _, name = call.api.rpartition(".")
    found: type[Any] = getattr(
        importlib.import_module(f"datadog_api_client.{module.replace('.', '.api.', 1)}"), name
    )
    return found


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_every_call_is_the_clients_own(call: Call) -> None:
    settings = getattr(client_of(call)(), f"_{call.name}_endpoint").settings
    assert settings["http_method"] == call.method
    path = settings["endpoint_path"]
    while "{" in path:
        path = path[: path.index("{")] + "\0" + path[path.index("}") + 1 :]
    assert path.replace("\0", "{}") == call.path


WRITING = [
    ("v1.monitors_api.MonitorsApi", "delete_monitor", {"monitor_id": 1}),
    (
        "v1.monitors_api.MonitorsApi",
        "create_monitor",
        {"body": {"type": "query alert", "query": "x"}},
    ),
    ("v2.events_api.EventsApi", "create_event", {"body": {"data": {}}}),
    ("v2.logs_api.LogsApi", "submit_log", {"body": [{"message": "x"}]}),
    ("v2.dora_metrics_api.DORAMetricsApi", "delete_dora_deployment", {"deployment_id": "x"}),
    ("v2.incidents_api.IncidentsApi", "delete_incident", {"incident_id": "x"}),
    ("v2.key_management_api.KeyManagementApi", "delete_application_key", {"app_key_id": "x"}),
    ("v2.users_api.UsersApi", "list_users", {}),
]


@pytest.mark.parametrize(("api", "name", "given"), WRITING, ids=[name for _, name, _ in WRITING])
def test_any_other_call_is_refused_before_it_is_sent(
    session: DatadogSession, server: LocalServer, api: str, name: str, given: dict[str, Any]
) -> None:
    session._client.configuration.check_input_type = False
    with pytest.raises(ConnectorError, match="a connector sends reading calls only"):
        session.ask(Call(api, name, "GET", "/api/v2/events/search"), object, **given)
    assert server.asked == []


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_path_that_is_read_cannot_be_written(
    session: DatadogSession, server: LocalServer, method: str
) -> None:
    for path in (
        "/api/v1/monitor",
        "/api/v1/monitor/7",
        "/api/v2/trace/1",
        "/api/v2/current_user/application_keys",
    ):
        with pytest.raises(ConnectorError, match="reading calls only"):
            session._client.rest_client.request(method, server.url + path, body={})
    assert server.asked == []


def test_no_other_address_is_asked(session: DatadogSession, server: LocalServer) -> None:
    for url in (
        "http://127.0.0.1:9/api/v1/monitor",
        f"{server.url}@example.com/api/v1/monitor",
        f"{server.url}.x/api/v1/monitor",
    ):
        with pytest.raises(ConnectorError, match="reading calls only"):
            session._client.rest_client.request("GET", url)


@pytest.mark.parametrize("trace_id", ["../monitor", "a/b", "x" * 65, "", "a?b=c"])
def test_an_identifier_cannot_lead_to_another_path(
    session: DatadogSession, server: LocalServer, trace_id: str
) -> None:
    with pytest.raises(ConnectorError):
        session.ask(TRACE, object, trace_id=trace_id)
    assert [a.path for a in server.asked] == []


def test_both_keys_are_sent_and_nothing_of_them_is_in_an_error(
    session: DatadogSession, server: LocalServer
) -> None:
    server.on("/api/v1/monitor/7", Reply({"errors": ["b" * 40]}, status=403))
    with pytest.raises(ConnectorError) as raised:
        session.ask(MONITOR, object, monitor_id=7)
    assert server.asked[0].headers["Dd-Api-Key"] == "a" * 32
    assert server.asked[0].headers["Dd-Application-Key"] == "b" * 40
    assert "bbbb" not in str(raised.value)
    assert raised.value.status == 403


def test_a_429_is_waited_for_as_long_as_datadog_says(
    session: DatadogSession, server: LocalServer
) -> None:
    server.on(
        "/api/v1/monitor", Reply({}, status=429, headers={"X-RateLimit-Reset": "1"}), Reply([])
    )
    started = time.monotonic()
    assert session.ask(MONITORS, list[Any]) == []
    assert time.monotonic() - started >= 1.0


def test_a_limit_that_resets_after_the_deadline_is_told_at_once(
    session: DatadogSession, server: LocalServer
) -> None:
    server.on("/api/v1/monitor", Reply({}, status=429, headers={"X-RateLimit-Reset": "3600"}))
    with pytest.raises(ConnectorError, match="the rate limit is used up"):
        session.ask(MONITORS, list[Any])
    assert len(server.asked) == 1


def test_a_limit_that_is_used_up_is_not_asked_for_again_until_it_resets(
    session: DatadogSession, server: LocalServer
) -> None:
    used_up = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1800"}
    server.on("/api/v2/logs/events/search", Reply({"data": []}, headers=used_up))
    server.on("/api/v1/monitor", Reply([]))
    session.ask(LOGS, dict[str, Any], body=LOG)
    with pytest.raises(ConnectorError, match=r"it resets in 1[78]\d\d s"):
        session.ask(LOGS, dict[str, Any], body=LOG)
    assert session.ask(MONITORS, list[Any]) == []
    assert len(server.asked) == 2


def test_searches_for_spans_stay_within_our_share_of_the_hour(
    session: DatadogSession, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datadog_session, "ALLOWANCES", {"spans": (3, 3600.0), "traces": (1, 60.0)})
    server.on("/api/v2/spans/events/search", Reply({"data": []}))
    for _ in range(3):
        session.ask(SPANS, dict[str, Any], body={"data": {}})
    with pytest.raises(
        ConnectorError,
        match=r"our share of Datadog's rate limit for spans is used up \(3 in 3600 s\)",
    ):
        session.ask(SPANS, dict[str, Any], body={"data": {}})
    assert len(server.asked) == 3
    assert allowances_of(server.url) is allowances_of(server.url)


def test_an_answer_that_is_nested_too_deep_is_not_understood(
    session: DatadogSession, server: LocalServer
) -> None:
    server.on("/api/v1/monitor", Reply(b"[" * 100_000))
    with pytest.raises(ConnectorError, match="unexpected response"):
        session.ask(MONITORS, list[Any])


def test_a_request_the_client_itself_finds_wrong_is_an_error_of_ours(
    session: DatadogSession, server: LocalServer
) -> None:
    with pytest.raises(ConnectorError, match="the request cannot be made"):
        session.ask(LOGS, dict[str, Any], body={"filter": {"query": 3}})
    assert server.asked == []


def test_what_is_posted_is_json(session: DatadogSession, server: LocalServer) -> None:
    server.on("/api/v2/logs/events/search", Reply({"data": []}))
    session.ask(LOGS, dict[str, Any], body={"filter": {"query": "a", "_from": "1", "to": "2"}})
    assert json.loads(server.asked[0].body) == {"filter": {"query": "a", "from": "1", "to": "2"}}
    assert call_of("POST", server.asked[0].path) is LOGS


def test_packed_answers_are_read_and_a_bomb_is_not(server: LocalServer) -> None:
    packed = {"Content-Encoding": "gzip"}
    with_few_bytes = DatadogAccess(
        server.url, "a", "b", Limits(requests_per_s=1000, max_bytes=100_000)
    )
    session = with_few_bytes.session(Deadline.after(10))
    server.on("/api/v1/monitor", Reply(gzip.compress(b'[{"id": 7}]'), headers=packed))
    assert session.ask(MONITORS, list[Any]) == [{"id": 7}]
    server.on(
        "/api/v1/monitor", Reply(gzip.compress(b"[" + b" " * 50_000_000 + b"]"), headers=packed)
    )
    with pytest.raises(BudgetExceeded, match="limit of 100,000 bytes"):
        session.ask(MONITORS, list[Any])
    session.close()


def test_a_server_that_never_answers_is_left_alone_for_a_while(server: LocalServer) -> None:
    access = DatadogAccess("http://127.0.0.1:9", "a", "b", LIMITS)
    for _ in range(2):
        with pytest.raises(ConnectorError, match=r"no answer|circuit open"):
            access.session(Deadline.after(10)).ask(MONITORS, list[Any])
    with pytest.raises(ConnectorError, match="requests failed"):
        access.session(Deadline.after(10)).ask(MONITORS, list[Any])
