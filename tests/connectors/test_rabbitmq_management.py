"""A real RabbitMQ, asked itself: a queue that nobody reads, consumers that acknowledge nothing, no
memory left."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faultline.connectors.shared.contract.base import Connector
from faultline.connectors.vendors.rabbitmq import connector as facts
from faultline.loopback.bot_process import free_port
from tests.connectors.debian_rabbitmq import start_broker
from tests.connectors.live_requests import configured, diagnosed_now, facts_of, snapshot
from tests.connectors.real_servers import facts_in, programs

TROUBLE = """
Publish = fun(Name, Count) ->
  Queue = rabbit_misc:r(<<"/">>, queue, Name),
  rabbit_amqqueue:declare(Queue, false, false, [], none, <<"guest">>),
  Exchange = rabbit_misc:r(<<"/">>, exchange, <<"">>),
  [rabbit_basic:publish(Exchange, Name, [], <<"1">>) || _ <- lists:seq(1, Count)]
end,
Publish(<<"orders">>, 3),
Publish(<<"billing">>, 151),
spawn(fun() ->
  Params = {amqp_params_direct, <<"guest">>, <<"guest">>, <<"/">>, node(), none, []},
  {ok, Connection} = amqp_connection:start(Params),
  {ok, Channel} = amqp_connection:open_channel(Connection),
  amqp_channel:call(Channel, {'basic.qos', 0, 1, false}),
  Consume = {'basic.consume', 0, <<"billing">>, <<"">>, false, false, false, false, []},
  amqp_channel:subscribe(Channel, Consume, self()),
  receive stop -> ok end
end),
[begin
  rabbit_auth_backend_internal:add_user(Name, <<"pw-1">>, <<"test">>),
  rabbit_auth_backend_internal:set_tags(Name, Tags, <<"test">>)
end || {Name, Tags} <- [{<<"faultline">>, [monitoring]}, {<<"blind">>, [management]}]],
Nothing = <<"^$">>,
rabbit_auth_backend_internal:set_permissions(
  <<"faultline">>, <<"/">>, Nothing, Nothing, Nothing, <<"test">>),
vm_memory_monitor:set_vm_memory_high_watermark(0.00001),
told.
"""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Where the management plugin of such a broker listens, once it has counted all that."""
    with programs(tmp_path_factory.mktemp("rabbitmq")) as running:
        port = free_port()
        settings = f"management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {port}\n"
        url = f"http://127.0.0.1:{port}"
        start_broker(running, "rabbitmq_management", settings, url, TROUBLE)
        folder = tmp_path_factory.mktemp("case")
        known = {"publishing_blocked", "consumers_behind", "queue_without_consumers"}
        running.until(
            lambda: known <= set(facts_of(snapshot(connector(port), folder))), "its statistics"
        )
        yield port


def connector(port: int, **own: Any) -> Connector:
    """As settings build it, for the user that may only read statistics."""
    values = {"url": f"http://127.0.0.1:{port}", "username": "faultline", "token": "pw-1"}
    return configured("rabbitmq", {**values, "service": "events-mq", **own})


def test_alarms_and_queues_of_the_broker(port: int, tmp_path: Path) -> None:
    found = snapshot(connector(port), tmp_path)
    told = {(kind, name, fact): value for kind, name, fact, value in facts_in(found)}
    node = ("Broker node", "faultline@localhost")
    assert str(told[(*node, "publishing_blocked")]).startswith("its memory alarm is on (")
    assert str(told[(*node, "database_restarted")]).startswith("it started ")
    assert told["Queue", "orders", "queue_without_consumers"] == "3 messages"
    stuck = "150 messages ready, 1 not acknowledged, and its 1 consumer acknowledge none"
    assert told["Queue", "billing", "consumers_behind"] == stuck
    assert len(told) == 4
    assert found.missing == ()
    assert [item.link for item in found.items] == [
        f"http://127.0.0.1:{port}/#/",
        f"http://127.0.0.1:{port}/#/queues",
    ]


def test_a_broker_that_takes_no_more_messages_is_a_finding(port: int, tmp_path: Path) -> None:
    diagnosis = diagnosed_now(tmp_path, connector(port))
    [finding] = [one for one in diagnosis.findings if "blocks its publishers" in one.sentence]
    assert (finding.subject, len(finding.evidence)) == ("events-mq", 1)


def test_what_a_user_may_see_and_write_is_said(port: int, tmp_path: Path) -> None:
    check = asyncio.run(connector(port).check())
    assert check.ok
    assert check.line.startswith("RabbitMQ 3.10.")
    assert "warning" not in check.line
    owner = asyncio.run(connector(port, username="guest", token="guest").check())
    assert "warning: this user can also write (administrator)" in owner.line
    blind = connector(port, username="blind")
    assert asyncio.run(blind.check()).unread == ("nodes",)
    nodes, queues = snapshot(blind, tmp_path).missing
    assert nodes.query.startswith("/api/nodes?")
    assert queues.reason == "this user sees no queue: let it into the virtual hosts"


def test_a_wrong_password_is_a_gap_that_does_not_show_it(port: int, tmp_path: Path) -> None:
    built = connector(port, token="pw-2")
    found = snapshot(built, tmp_path)
    assert found.tables == {}
    assert len(found.missing) == 2
    assert "pw-2" not in str(found.missing)
    assert not asyncio.run(built.check()).ok


@pytest.mark.parametrize(
    ("node", "told"),
    [
        (facts.NodeAnswer("a"), []),
        (facts.NodeAnswer("a", running=False, mem_alarm=True), ["not running"]),
        (facts.NodeAnswer("a", partitions=["b", "c"]), ["it does not see b, c"]),
        (
            facts.NodeAnswer("a", disk_free_alarm=True, disk_free=4e7, disk_free_limit=5e7),
            ["its disk alarm is on (40 MB free, of at least 50 MB)"],
        ),
        (facts.NodeAnswer("a", uptime=60_000), ["it started 60 s ago"]),
        (facts.NodeAnswer("a", uptime=9e9), []),
    ],
)
def test_what_a_node_says(node: facts.NodeAnswer, told: list[str]) -> None:
    assert [one.value for one in facts.node_facts([node], 7200)] == told


@pytest.mark.parametrize(
    ("queue", "told"),
    [
        (facts.QueueAnswer("q", messages_ready=9_999, consumers=2), []),
        (facts.QueueAnswer("q", vhost="eu", state="down"), ["down"]),
        (
            facts.QueueAnswer(
                "q",
                messages_ready=20_000,
                messages_unacknowledged=5,
                consumers=2,
                message_stats=facts.RatesAnswer(facts.RateAnswer(90.0), facts.RateAnswer(4.0)),
            ),
            ["20000 messages ready, 5 not acknowledged, 90/s in, 4/s out"],
        ),
    ],
)
def test_what_a_queue_says(queue: facts.QueueAnswer, told: list[str]) -> None:
    assert [one.value for one in facts.queue_facts([queue])] == told
