"""An alert of now leads to evidence from every database and broker, each a real server or, of Kafka
and MongoDB, one that speaks its protocol; once they are gone, each is a gap in the report.

The other connectors are asked of the past by stand-ins: tests/scenarios/test_every_connector.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psycopg
import pytest

from faultline.connectors.registry import CONNECTORS
from faultline.loopback.bot_process import free_port
from tests.connectors.clickhouse_server import clickhouse_server
from tests.connectors.conftest import ALERT_AT
from tests.connectors.debian_mariadb import start_mariadb
from tests.connectors.debian_postgres import ADMIN, debian_postgres
from tests.connectors.debian_rabbitmq import start_broker
from tests.connectors.kafka_broker import serving as serving_kafka
from tests.connectors.mongodb_server import serving as serving_mongodb
from tests.connectors.real_servers import Programs, programs
from tests.connectors.test_kafka import read_by
from tests.connectors.test_mongodb import server as mongodb_server
from tests.connectors.test_mysql import USERS
from tests.connectors.test_rabbitmq_management import TROUBLE
from tests.connectors.test_read_only import OVER_HTTP
from tests.connectors.test_redis import start as start_redis
from tests.debian_tools import debian_binary
from tests.scenarios.bot_story import Story, bot_story

pytestmark = pytest.mark.timeout(600)

OWNERS = {
    "postgresql": "orders-db",
    "mysql": "billing-db",
    "redis": "carts",
    "rabbitmq": "events-mq",
    "nats": "signals",
    "kafka": "events-kafka",
    "mongodb": "profiles-db",
}
"""The service that each is; these tell of now."""
ASKED = {*OWNERS, "clickhouse"}
SETTINGS = """
[services.checkout]
depends_on = [{depends_on}]

[postgresql]
host = "{sockets}"
username = "faultline"
tls = "off"
service = "orders-db"

[mysql]
host = "127.0.0.1"
port = {mysql}
username = "faultline"
tls = "off"
service = "billing-db"

[redis]
host = "127.0.0.1"
port = {redis}
tls = "off"
service = "carts"

[rabbitmq]
url = "http://127.0.0.1:{rabbitmq}"
username = "faultline"
service = "events-mq"

[nats]
url = "http://127.0.0.1:{nats}"
service = "signals"

[kafka]
brokers = "127.0.0.1:{kafka}"
tls = "off"
service = "events-kafka"

[mongodb]
host = "127.0.0.1"
port = {mongodb}
tls = "off"
service = "profiles-db"

[clickhouse]
url = "{clickhouse}"
username = "faultline"
database = "otel"

[alerts]
oldest_days = 36500
"""
SECRETS = {
    "FAULTLINE_CLICKHOUSE__TOKEN": "secret",
    "FAULTLINE_MYSQL__PASSWORD": "pw-1",
    "FAULTLINE_RABBITMQ__TOKEN": "pw-1",
    "FAULTLINE_ALERTMANAGER__WEBHOOK_TOKENS": "am-token",
}


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    """What runs until it is closed."""
    with ExitStack() as running:
        yield running


def started(servers: ExitStack, folder: Path) -> str:
    """Settings of a bot that may read all of them."""
    _, sockets = servers.enter_context(debian_postgres())
    with psycopg.connect(host=str(sockets), user=ADMIN, dbname="postgres") as connection:
        connection.execute("CREATE ROLE faultline LOGIN")
        connection.execute("GRANT pg_monitor TO faultline")
    running = servers.enter_context(programs(folder))
    management, told = free_port(), start_nats(running)
    lines = f"management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {management}\n"
    url = f"http://127.0.0.1:{management}"
    start_broker(running, "rabbitmq_management", lines, url, TROUBLE)
    kafka = read_by("billing")
    servers.enter_context(serving_kafka(kafka))
    mongodb = mongodb_server()
    servers.enter_context(serving_mongodb(mongodb))
    (folder / "clickhouse").mkdir()
    return SETTINGS.format(
        depends_on=", ".join(map(json.dumps, OWNERS.values())),
        sockets=sockets,
        mysql=start_mariadb(running, "billing", USERS, has_users=True),
        redis=start_redis(running),
        rabbitmq=management,
        nats=told,
        kafka=kafka.port,
        mongodb=mongodb.port,
        clickhouse=servers.enter_context(clickhouse_server(folder / "clickhouse")),
    )


def start_nats(running: Programs) -> int:
    """The port at which it tells of itself."""
    told = free_port()
    program = debian_binary("nats-server", "usr/sbin/nats-server")
    running.start(program, "-a", "127.0.0.1", "-p", str(free_port()), "-m", str(told))
    running.until_answers(f"http://127.0.0.1:{told}/healthz")
    return told


def evidence(
    story: Story, state: Path, name: str, at: datetime | None = None
) -> tuple[set[str], dict[str, str], str]:
    """Of an alert, of now unless told: the sources with an item, those with a gap and why, and the
    report."""
    alert = {
        "status": "firing",
        "labels": {"alertname": name, "service": "checkout", "severity": "critical"},
        "annotations": {},
        "startsAt": (at or datetime.now(UTC)).isoformat(),
    }
    body = {"version": "4", "groupKey": name, "status": "firing", "alerts": [alert]}
    taken = httpx.post(
        f"{story.bot.url}/webhooks/alertmanager",
        json=body,
        headers={"authorization": "Bearer am-token"},
        timeout=30,
    )
    assert taken.status_code == 202, taken.text
    investigation = str(taken.json()["investigation_id"])
    story.wait_for(
        lambda: (found := story.store.get(investigation)) is not None and found.status == "done",
        within_s=240,
        what="an answer",
    )
    # Not searched for below: parts of a case are removed once they are merged.
    folder = state / "cases" / investigation
    listed = json.loads((folder / "evidence.json").read_text())
    brought = {one["source"] for one in listed if "reason" not in one}
    gaps = {one["source"]: one["reason"] for one in listed if "reason" in one}
    return brought, gaps, (folder / "report.md").read_text()


def test_all_of_them_are_covered_here_or_by_stand_ins() -> None:
    assert ASKED | set(OVER_HTTP) == set(CONNECTORS)


def test_databases_and_brokers_bring_evidence_and_are_gaps_once_they_are_gone(
    tmp_path: Path, servers: ExitStack
) -> None:
    (tmp_path / "servers").mkdir()
    (tmp_path / "faultline.toml").write_text(started(servers, tmp_path / "servers"))
    log = tmp_path / "bot.log"
    with bot_story(tmp_path, None, "sqlite", log=log, environ=SECRETS) as story:
        brought, gaps, _ = evidence(story, tmp_path / "state", "Up")
        assert set(OWNERS) <= brought, gaps
        # Its rows are those of an earlier incident.
        brought, gaps, _ = evidence(story, tmp_path / "state", "Earlier", ALERT_AT)
        assert "clickhouse" in brought, gaps
        servers.close()
        brought, gaps, report = evidence(story, tmp_path / "state", "Gone")
        assert set(gaps) >= ASKED, brought
        assert not ASKED & brought
        for name in ASKED:
            assert f"from {name}: " in report, name
