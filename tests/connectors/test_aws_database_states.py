"""What RDS says of a database: its status and its events, over the wire as boto3 reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.vendors.aws import CONNECTOR
from faultline.connectors.vendors.aws.database_states import OF_MESSAGE
from tests.connectors.local_http import LocalServer
from tests.connectors.stand_ins.aws import AwsStandIn, settings
from tests.connectors.test_aws import NOW, asked

Answer = Callable[[Mapping[str, Any]], str]


def xml(operation: str, body: str) -> str:
    """An answer of RDS's query protocol."""
    return (
        f'<{operation}Response xmlns="http://rds.amazonaws.com/doc/2014-10-31/">'
        f"<{operation}Result>{body}</{operation}Result></{operation}Response>"
    )


def instance(status: str, more: str = "") -> Answer:
    """DescribeDBInstances."""
    body = (
        "<DBInstances><DBInstance><DBInstanceIdentifier>checkout-db</DBInstanceIdentifier>"
        f"<DBInstanceStatus>{status}</DBInstanceStatus>{more}</DBInstance></DBInstances>"
    )
    return lambda _: xml("DescribeDBInstances", body)


def events(of_instance: str = "", of_cluster: str = "") -> Answer:
    """DescribeEvents with one event, of the instance or of its cluster."""
    at = (NOW - timedelta(minutes=8)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def answer(params: Mapping[str, Any]) -> str:
        message = of_cluster if params.get("SourceType") == "db-cluster" else of_instance
        event = f"<Event><Message>{message}</Message><Date>{at}</Date></Event>" if message else ""
        return xml("DescribeEvents", f"<Events>{event}</Events>")

    return answer


class Database:
    """A service of one database at a stand-in."""

    def __init__(self, server: LocalServer) -> None:
        self._cloud = AwsStandIn(NOW)
        self._usual = self._cloud.replies
        self._cloud.serve(server)
        tables = settings(server.url)
        tables["services"] = {"checkout": {"aws": {"databases": ["checkout-db"]}}}
        connector = CONNECTOR.configured(Settings.model_validate(tables))
        assert connector is not None
        self._connector = connector

    def collect(self, folder: Path, **replies: Answer) -> Collected:
        """What is collected of checkout, whose database answers so."""
        self._cloud.replies = self._usual | replies
        return asyncio.run(collect_from(self._connector, asked(folder, "checkout")))


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """One for all: boto3 takes longer to make its clients than they to ask."""
    with LocalServer() as server, pytest.MonkeyPatch.context() as environment:
        for key in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
            environment.setenv(f"AWS_{key}", "test")
        yield Database(server)


def facts(found: Collected) -> set[tuple[str, str]]:
    """Service and fact of every row."""
    return set(found.tables["states"].select("service", "fact").rows())


@pytest.mark.parametrize(
    ("status", "fact"),
    [
        ("storage-full", "database_storage_full"),
        ("stopped", "database_unavailable"),
        ("incompatible-parameters", "database_unavailable"),
        ("rebooting", "database_restarted"),
        ("maintenance", "database_in_maintenance"),
        ("resetting-master-credentials", "database_access_changed"),
    ],
)
def test_a_status_that_serves_nobody_is_a_fact(
    database: Database, tmp_path: Path, status: str, fact: str
) -> None:
    found = database.collect(
        tmp_path, DescribeDBInstances=instance(status), DescribeEvents=events()
    )
    assert facts(found) == {("checkout", fact)}
    row = found.tables["states"].row(0, named=True)
    assert (row["value"], row["expected"]) == (status, "available")


@pytest.mark.parametrize("status", ["available", "backing-up", "modifying", "creating"])
def test_a_database_that_serves_has_no_fact(
    database: Database, tmp_path: Path, status: str
) -> None:
    found = database.collect(
        tmp_path, DescribeDBInstances=instance(status), DescribeEvents=events()
    )
    assert "states" not in found.tables or not found.tables["states"].height


@pytest.mark.parametrize(
    ("message", "fact"),
    [
        ("Multi-AZ instance failover started.", "database_failed_over"),
        ("Allocated storage has been exhausted. Allocate additional storage to resolve.",
         "database_storage_full"),
        ("The free storage capacity for DB instance: checkout-db is low at 3% of the provisioned "
         "storage", "database_storage_full"),
        ("Reset master credentials.", "database_access_changed"),
        ("DB instance restarted.", "database_restarted"),
        ("Applying off-line patches to DB instance.", "database_in_maintenance"),
        ("DB instance stopped.", "database_unavailable"),
        ("Replication has stopped.", "database_lagging"),
    ],
)  # fmt: skip
def test_an_event_says_what_happened_and_when(
    database: Database, tmp_path: Path, message: str, fact: str
) -> None:
    replies = {"DescribeDBInstances": instance("available"), "DescribeEvents": events(message)}
    found = database.collect(tmp_path, **replies)
    assert facts(found) == {("checkout", fact)}
    assert found.tables["states"]["since"][0] == NOW - timedelta(minutes=8)


def test_a_cluster_tells_of_its_failover(database: Database, tmp_path: Path) -> None:
    member = "<DBClusterIdentifier>checkout-cluster</DBClusterIdentifier>"
    told = events(of_cluster="Completed failover to DB instance: checkout-db-2")
    replies = {"DescribeDBInstances": instance("available", member), "DescribeEvents": told}
    assert facts(database.collect(tmp_path, **replies)) == {("checkout", "database_failed_over")}


@pytest.mark.parametrize(
    "message", ["Backing up DB instance", "Finished applying modification to DB instance class"]
)
def test_usual_events_are_no_facts(message: str) -> None:
    assert not any(pattern.search(message) for _, pattern in OF_MESSAGE)


def test_every_field_that_is_read_is_one_of_the_published_api() -> None:
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    model = ServiceModel(Loader().load_service_model("rds", "service-2"))
    fields = model.shape_for("DBInstance").members
    assert set(fields) >= {
        "DBInstanceStatus",
        "DBClusterIdentifier",
        "DBParameterGroups",
        "StatusInfos",
    }
    group = model.shape_for("DBParameterGroupStatus").members
    assert {"ParameterApplyStatus", "DBParameterGroupName"} <= set(group)
    assert {"Normal", "Status", "Message"} <= set(model.shape_for("DBInstanceStatusInfo").members)
