"""A real RabbitMQ, read through its own plugin `rabbitmq_prometheus`."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pytest

from faultline.connectors.shared.contract.base import Collected
from faultline.loopback.bot_process import free_port
from tests.connectors.debian_rabbitmq import start_broker
from tests.connectors.real_servers import (
    Scraped,
    collected_lately,
    facts_in,
    known_to,
    metrics_of,
    programs,
    refused_in,
)

QUEUE, WAITING = "orders", 3
TROUBLE = f"""
Queue = rabbit_misc:r(<<"/">>, queue, <<"{QUEUE}">>),
rabbit_amqqueue:declare(Queue, false, false, [], none, <<"guest">>),
Exchange = rabbit_misc:r(<<"/">>, exchange, <<"">>),
[rabbit_basic:publish(Exchange, <<"{QUEUE}">>, [], <<"1">>) || _ <- lists:seq(1, {WAITING})],
vm_memory_monitor:set_vm_memory_high_watermark(0.00001),
told.
"""
"""A queue with messages that nobody reads, then no memory left."""
FAMILIES = ("queue_coarse_metrics", "queue_consumer_count")
"""What `/metrics/detailed` tells of each queue by itself."""


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus that scrapes a broker: a queue of it that nobody reads, and no
    memory left."""
    with programs(tmp_path_factory.mktemp("rabbitmq")) as running:
        port = free_port()
        settings = f"prometheus.tcp.ip = 127.0.0.1\nprometheus.tcp.port = {port}\n"
        url = f"http://127.0.0.1:{port}/metrics"
        start_broker(running, "rabbitmq_prometheus", settings, url, TROUBLE)
        yield running.scraping(
            Scraped("events-mq", port),
            Scraped("events-mq-queues", port, "/metrics/detailed", {"family": FAMILIES}),
            Scraped("events-mq-objects", port, "/metrics/per-object"),
        )


@pytest.fixture(scope="module")
def collected(scraped: str, tmp_path_factory: pytest.TempPathFactory) -> Collected:
    """What the connector brings of it."""
    return collected_lately(scraped, tmp_path_factory.mktemp("files"))


def test_every_metric_that_the_data_file_knows_is_there(scraped: str, collected: Collected) -> None:
    assert metrics_of("RabbitMQ") - known_to(scraped) == set()
    assert refused_in(collected) == []


@pytest.mark.parametrize("prefix", ["rabbitmq_queue_", "rabbitmq_detailed_queue_"])
def test_a_queue_that_nobody_reads_is_named_by_either_way_to_ask_for_queues(
    prefix: str, collected: Collected
) -> None:
    of_queue = pl.col("query").str.contains(f"(?:^|[ (]){prefix}")
    [fact] = collected.tables["states"].filter(of_queue).rows(named=True)
    assert (fact["kind"], fact["name"], fact["value"]) == ("Queue", QUEUE, f"{WAITING} messages")
    assert fact["fact"] == "queue_without_consumers"


def test_a_broker_that_sums_up_its_queues_has_their_depth(collected: Collected) -> None:
    depth = collected.tables["metrics"].filter(pl.col("signal") == "queue_depth")
    assert set(depth["service"]) == {"events-mq", QUEUE}
    assert depth["value"].unique().to_list() == [WAITING]


def test_a_broker_that_takes_no_more_messages_is_named_after_its_job(collected: Collected) -> None:
    said = "its memory alarm is on"
    brokers = [one for one in facts_in(collected) if one[0] == "Broker"]
    assert brokers == [("Broker", "events-mq", "publishing_blocked", said)]
