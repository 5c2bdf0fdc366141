"""A real RabbitMQ, read through its own plugin `rabbitmq_prometheus`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl
import pytest

from connectors.base import Collected
from tests.connectors.conftest import free_port
from tests.connectors.real_servers import (
    Programs,
    Scraped,
    collected_lately,
    facts_in,
    known_to,
    metrics_of,
    programs,
    refused_in,
)
from tests.debian_tools import debian_root

ERLANG = (
    "erlang-base", "erlang-asn1", "erlang-crypto", "erlang-eldap", "erlang-inets", "erlang-mnesia",
    "erlang-os-mon", "erlang-parsetools", "erlang-public-key", "erlang-runtime-tools",
    "erlang-ssl", "erlang-syntax-tools", "erlang-tools", "erlang-xmerl",
)  # fmt: skip
NODE = "faultline@localhost"
QUEUE, WAITING = "orders", 3
CALM = ("+S", "1", "+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none")
"""One scheduler, which sleeps when it has nothing to do."""
TROUBLE = f"""
Queue = rabbit_misc:r(<<"/">>, queue, <<"{QUEUE}">>),
rabbit_amqqueue:declare(Queue, false, false, [], none, <<"guest">>),
Exchange = rabbit_misc:r(<<"/">>, exchange, <<"">>),
[rabbit_basic:publish(Exchange, <<"{QUEUE}">>, [], <<"1">>) || _ <- lists:seq(1, {WAITING})],
vm_memory_monitor:set_vm_memory_high_watermark(0.00001),
told.
"""
"""A queue with messages that nobody reads, then no memory left."""
PLUGINS = (
    "rabbitmq_prelaunch",
    "rabbitmq_prometheus",
    "rabbitmq_management_agent",
    "rabbitmq_web_dispatch",
)
FAMILIES = ("queue_coarse_metrics", "queue_consumer_count")
"""What `/metrics/detailed` tells of each queue by itself."""


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus that scrapes a broker: a queue of it that nobody reads, and no
    memory left."""
    with programs(tmp_path_factory.mktemp("rabbitmq")) as running:
        port = _start_broker(running)
        yield running.scraping(
            Scraped("events-mq", port),
            Scraped("events-mq-queues", port, "/metrics/detailed", {"family": FAMILIES}),
            Scraped("events-mq-objects", port, "/metrics/per-object"),
        )


def _start_broker(running: Programs) -> int:
    """The port of its metrics."""
    root = debian_root("rabbitmq-server", *ERLANG)
    metrics, names, nodes = (free_port() for _ in range(3))
    _configure(running.folder, metrics)
    [programs_of_erlang] = root.glob("usr/lib/erlang/erts-*/bin")
    [home] = root.glob("usr/lib/rabbitmq/lib/rabbitmq_server-*")
    # Erlang would start it as a daemon that outlives the test.
    running.start(programs_of_erlang / "epmd", "-port", str(names), "-address", "127.0.0.1")
    environment = {
        **_erlang(programs_of_erlang, running.folder, names),
        **_places(home, running.folder, nodes),
    }
    # As its script does, which looks for Erlang where only an installation has it.
    running.start(
        programs_of_erlang / "erlexec",
        *("-noinput", "-boot", "start_sasl", "-s", "rabbit", "boot", *CALM),
        *("-kernel", "inet_dist_use_interface", "{127,0,0,1}"),
        *("-syslog", "logger", "[]", "-syslog", "syslog_error_logger", "false"),
        env=environment,
    )
    running.until_answers(f"http://127.0.0.1:{metrics}/metrics")
    cookie = (running.folder / ".erlang.cookie").read_text()
    call = [programs_of_erlang / "erl_call", "-address", str(nodes), "-c", cookie, "-e"]
    told = subprocess.run(
        call, check=False, input=TROUBLE, text=True, capture_output=True, timeout=30
    )
    assert "told" in told.stdout, told
    return metrics


def _erlang(programs_of_erlang: Path, folder: Path, names: int) -> Mapping[str, str]:
    return {
        "ROOTDIR": str(programs_of_erlang.parents[1]),
        "BINDIR": str(programs_of_erlang),
        "EMU": "beam",
        "PROGNAME": "erl",
        "HOME": str(folder),
        "PATH": f"{programs_of_erlang}:{os.environ['PATH']}",
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(names),
    }


def _places(home: Path, folder: Path, nodes: int) -> Mapping[str, str]:
    return {
        "ERL_LIBS": str(_needed(home / "plugins", folder / "libraries")),
        "RABBITMQ_HOME": str(home),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "none.conf"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_DIST_PORT": str(nodes),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_FEATURE_FLAGS_FILE": str(folder / "features"),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_NODENAME": NODE,
        "RABBITMQ_PID_FILE": str(folder / "pid"),
    }


def _needed(plugins: Path, libraries: Path) -> Path:
    """Links to the libraries of RabbitMQ and to the plugins that are enabled: each module is looked
    for in all of them, which is a quarter of its start."""
    libraries.mkdir()
    for one in plugins.glob("*-*"):
        name = one.name.rpartition("-")[0]
        if not name.startswith("rabbitmq_") or name in PLUGINS:
            (libraries / one.name).symlink_to(one)
    return libraries


def _configure(folder: Path, metrics: int) -> None:
    (folder / "plugins").write_text("[rabbitmq_prometheus].\n")
    (folder / "rabbitmq.conf").write_text(
        f"listeners.tcp.1 = 127.0.0.1:{free_port()}\n"
        "collect_statistics_interval = 1000\n"
        f"prometheus.tcp.ip = 127.0.0.1\nprometheus.tcp.port = {metrics}\n"
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
