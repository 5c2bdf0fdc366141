"""MongoDB's connector before a server that speaks its protocol and answers as its manual says: who
waits for a lock, what stays open, which member is behind, and that no value is shown."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from bson import Int64, ObjectId, Timestamp

from faultline.connectors.shared.contract.base import Connector, collect_from
from faultline.connectors.vendors.mongodb import commands
from faultline.connectors.vendors.mongodb.operations import masked_command
from faultline.loopback.bot_process import free_port
from tests.connectors.live_requests import (
    configured,
    diagnosed_now,
    facts_of,
    live_request,
    snapshot,
)
from tests.connectors.mongodb_server import MongodbServer, refusal, serving
from tests.connectors.real_servers import facts_in
from tests.own_certificates import OwnAuthority

CARD = "4111111111111111"
GB = 2**30
STATUS: Mapping[str, Any] = {
    "host": "m1:27017",
    "version": "7.0.14",
    "process": "mongod",
    "pid": Int64(1),
    "uptime": 90_000.0,
    "localTime": datetime(2026, 3, 2, tzinfo=UTC),
    "connections": {"current": 40, "available": 960, "totalCreated": 4_000, "active": 12},
    "globalLock": {"totalTime": Int64(1), "currentQueue": {"total": 0, "readers": 0, "writers": 0}},
    "wiredTiger": {
        "uri": "statistics:",
        "cache": {
            "maximum bytes configured": Int64(8 * GB),
            "tracked dirty bytes in the cache": Int64(GB // 10),
        },
        "concurrentTransactions": {
            "read": {"out": 1, "available": 127, "totalTickets": 128},
            "write": {"out": 3, "available": 125, "totalTickets": 128},
        },
    },
    "$clusterTime": {"clusterTime": Timestamp(1526229410, 1)},
    "ok": 1.0,
}
NO_SET = refusal(76, "not running with --replSet")
RIGHTS_OF_MONITOR = [
    {"resource": {"cluster": True}, "actions": ["inprog", "serverStatus", "replSetGetStatus"]},
    {"resource": {"db": "", "collection": ""}, "actions": ["collStats", "dbStats"]},
]


COLLECTIONS = {"events": (5.0, 1.0), "orders": (2.0, 0.0)}
"""Of the database shop: bytes in all, and free, in GB."""


def cursor(*batch: Mapping[str, Any]) -> Mapping[str, Any]:
    """An answer that is a cursor."""
    return {"cursor": {"firstBatch": list(batch), "id": Int64(0), "ns": "admin.$cmd"}, "ok": 1.0}


def names(command: Mapping[str, Any]) -> Mapping[str, Any]:
    """Collections as they are named to a user with a right on them alone."""
    assert command["nameOnly"], command
    assert command["authorizedCollections"], command
    found = COLLECTIONS if command["$db"] == "shop" else {}
    return cursor(*[{"name": name, "type": "collection"} for name in found])


def sizes(command: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of one collection, as the manual's example has them."""
    total, free = COLLECTIONS[command["aggregate"]]
    stats = {"storageSize": Int64(total * GB - 100), "totalIndexSize": 100}
    stats |= {"totalSize": Int64(total * GB), "freeStorageSize": Int64(free * GB)}
    return cursor({"storageStats": stats})


def connected(number: int, **more: Any) -> dict[str, Any]:
    """A connection without an operation, as `$currentOp` has it with `idleConnections`."""
    return {
        "type": "op",
        "host": "m1:27017",
        "desc": f"conn{number}",
        "connectionId": number,
        "client": f"10.0.0.7:{51_000 + number}",
        "clientMetadata": {"driver": {"name": "PyMongo", "version": "4.9"}},
        "active": False,
        "currentOpTime": "2026-03-02T00:00:00.000+00:00",
        "isFromUserConnection": True,
        **more,
    }


def grouped(
    command: Mapping[str, Any], connections: Iterable[Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Connections by application and users, as the server's `$group` makes them."""
    current_op, _, group, _ = command["pipeline"]
    assert current_op["$currentOp"]["idleConnections"]
    assert group["$group"]["_id"] == {
        "application": "$appName",
        "users": "$effectiveUsers.user",
    }
    groups = []
    for connection in connections:
        # A field that a document lacks is not in the group either.
        key: dict[str, Any] = {}
        if "appName" in connection:
            key["application"] = connection["appName"]
        if "effectiveUsers" in connection:
            key["users"] = [user["user"] for user in connection["effectiveUsers"]]
        if key not in groups:
            groups.append(key)
    return cursor(*({"_id": key} for key in groups))


def server(
    *operations: Mapping[str, Any], connections: Sequence[Mapping[str, Any]] = (), **more: Any
) -> MongodbServer:
    """A healthy server that runs these operations, some answers replaced."""

    def aggregate(command: Mapping[str, Any]) -> Mapping[str, Any]:
        """The operations, the clients, or the size of a collection."""
        if any("$group" in stage for stage in command["pipeline"]):
            return grouped(command, (*operations, *connections))
        if command["aggregate"] == 1:
            return cursor(*operations)
        return sizes(command)

    answers: dict[str, Any] = {
        "serverStatus": STATUS,
        "aggregate": aggregate,
        "listCollections": names,
        "replSetGetStatus": NO_SET,
        "replSetGetConfig": {"config": {"_id": "rs0", "members": []}, "ok": 1.0},
        "dbStats": {"db": "admin", "fsUsedSize": 10.0 * GB, "fsTotalSize": 100.0 * GB, "ok": 1.0},
        "listDatabases": {
            "databases": [
                {"name": "shop", "sizeOnDisk": Int64(7 * GB), "empty": False},
                {"name": "admin", "sizeOnDisk": Int64(40_960), "empty": False},
            ],
            "ok": 1.0,
        },
        "connectionStatus": {
            "authInfo": {
                "authenticatedUsers": [{"user": "faultline", "db": "admin"}],
                "authenticatedUserRoles": [{"role": "clusterMonitor", "db": "admin"}],
                "authenticatedUserPrivileges": RIGHTS_OF_MONITOR,
            },
            "ok": 1.0,
        },
    }
    return MongodbServer({**answers, **more})


def connector(own: MongodbServer, **settings: Any) -> Connector:
    """As settings build it."""
    values = {"host": "127.0.0.1", "port": own.port, "tls": "off", "service": "orders-db"}
    catalogue = {"checkout": {"aliases": ["checkout-api"]}, "reports": {}}
    return configured("mongodb", {**values, **settings}, services=catalogue)


def told_of(own: MongodbServer, folder: Path) -> dict[str, str]:
    """Its facts."""
    with serving(own):
        found = snapshot(connector(own), folder)
    assert found.missing == ()
    return facts_of(found)


def running(opid: int, **more: Any) -> dict[str, Any]:
    """An operation of the shop."""
    return {
        "type": "op",
        "host": "m1:27017",
        "client": "10.0.0.7:51022",
        "appName": "shop",
        "effectiveUsers": [{"user": "shop", "db": "admin"}],
        "opid": opid,
        "op": "update",
        "ns": "shop.orders",
        "secs_running": Int64(40),
        "command": {"q": {"card": CARD, "_id": ObjectId()}, "u": {"$set": {"paid": True}}},
        "locks": {"Global": "w", "Database": "w", "Collection": "w"},
        "waitingForLock": False,
        "lockStats": {},
        **more,
    }


def waiting(opid: int, for_s: float) -> dict[str, Any]:
    """One that waits for the collection."""
    stats = {"Collection": {"timeAcquiringMicros": {"w": Int64(round(1e6 * for_s))}}}
    return running(opid, waitingForLock=True, lockStats=stats)


def test_the_operation_that_all_wait_for_is_the_cause(tmp_path: Path) -> None:
    drop = running(
        7,
        op="command",
        command={"collMod": "orders", "validator": {"card": CARD}},
        appName="migrate",
        locks={"Global": "w", "Database": "w", "Collection": "W"},
    )
    own = server(drop, *[waiting(i, 30.0 + i) for i in range(20, 23)])
    with serving(own):
        diagnosis = diagnosed_now(tmp_path, connector(own))
    cause = diagnosis.causes[0]
    assert (cause.subject, cause.kind) == ("orders-db", "sessions_blocked")
    [finding] = [one for one in diagnosis.findings if "wait for a lock" in one.sentence]
    assert "3 sessions up to 52 s for session 7 (migrate, user shop, command)" in finding.sentence
    assert finding.sentence.rstrip(".").endswith("its statement: collMod shop.orders")
    assert CARD not in diagnosis.model_dump_json()


def test_waiting_without_a_known_holder_is_told_without_one(tmp_path: Path) -> None:
    told = told_of(server(waiting(20, 5.0)), tmp_path)["sessions_blocked"]
    assert told == (
        "1 session up to 5 s for an operation that the server does not name, on shop.orders"
    )


def test_a_transaction_that_stays_open_and_an_operation_that_takes_long(tmp_path: Path) -> None:
    idle = {
        "type": "idleSession",
        "client": "10.0.0.7:51022",
        "appName": "shop",
        "effectiveUsers": [{"user": "shop", "db": "admin"}],
        "active": False,
        "lsid": {"id": uuid.UUID(int=1).bytes, "uid": b"x"},
        "transaction": {"timeOpenMicros": Int64(95_000_000)},
        "waitingForLock": False,
    }
    scan = running(
        9,
        op="command",
        planSummary="COLLSCAN",
        secs_running=Int64(600),
        command={"aggregate": "orders", "pipeline": [{"$match": {"card": {"$gt": CARD}}}]},
    )
    oplog = running(10, ns="local.oplog.rs", secs_running=Int64(90_000))
    told = told_of(server(idle, scan, oplog), tmp_path)
    assert told["transaction_held_open"].endswith("(shop, user shop, idle in transaction) for 95 s")
    assert told["commands_slow"] == (
        "operation 9 for 10 min: aggregate shop.orders [{$match: {card: {$gt: ?}}}] (COLLSCAN)"
    )


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ({"find": "o", "filter": {"a.b": CARD, "$or": [{"c": 1}]}}, "{a.b: ?, $or: [{c: ?}]}"),
        ({"insert": "o", "documents": [{"card": CARD}]}, ""),
        ({"find": "o", "filter": {"n": {"n": {"n": {"n": {"n": CARD}}}}}}, None),
        ({"$truncated": f"{{find: 'o', filter: {{card: '{CARD}'}}"}, ""),
        ({"aggregate": "o", "pipeline": CARD}, "?"),
    ],
)
def test_no_value_of_a_command_is_shown(command: dict[str, Any], said: str | None) -> None:
    shown = masked_command(command, "shop.o")
    assert CARD not in shown
    if said is not None:
        assert shown == f"{next(iter(command))} shop.o {said}".strip()


@pytest.mark.parametrize("place", ["wiredTiger", "queues"])
def test_a_server_out_of_tickets_connections_and_disk(place: str, tmp_path: Path) -> None:
    tickets = {"read": {"out": 128, "available": 0, "totalTickets": 128}, "monitored": True}
    more: dict[str, Any] = {"queues": {"execution": tickets}}
    if place == "wiredTiger":
        more = {"wiredTiger": {**STATUS["wiredTiger"], "concurrentTransactions": tickets}}
    status = {
        **STATUS,
        **more,
        "uptime": 120.0,
        "connections": {"current": 950, "available": 50},
        "globalLock": {"currentQueue": {"total": 60}},
    }
    disk = {"fsUsedSize": 97.0 * GB, "fsTotalSize": 100.0 * GB, "ok": 1.0}
    told = told_of(server(serverStatus=status, dbStats=disk), tmp_path)
    assert told == {
        "pool_exhausted": "950 of 1000 (95 % of maxIncomingConnections)",
        "database_restarted": "its server started 2 min ago",
        "commands_slow": "all 128 tickets for a read are taken, 60 wait",
        "database_storage_full": (
            "104 GB of 107 GB in use; largest collection shop.events: 5.4 GB, 1.1 GB of it free"
        ),
    }


def member(name: str, state: int, said: str, at: datetime, **more: Any) -> dict[str, Any]:
    """As replSetGetStatus has it."""
    return {
        "_id": 0,
        "name": name,
        "health": 1.0,
        "state": state,
        "stateStr": said,
        "uptime": 82_238,
        "optime": {"ts": Timestamp(1526229410, 1), "t": Int64(6)},
        "optimeDate": at,
        "configVersion": 1,
        **more,
    }


def test_members_that_are_behind_or_away_and_a_new_primary(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    members = [
        member("m1:27017", 1, "PRIMARY", now, electionDate=now - timedelta(minutes=3)),
        member("m2:27017", 2, "SECONDARY", now - timedelta(seconds=95)),
        member("m3:27017", 2, "SECONDARY", now - timedelta(seconds=3_610)),
        member("m4:27017", 8, "(not reachable/healthy)", datetime.fromtimestamp(0, UTC), health=0),
        member("m5:27017", 7, "ARBITER", now),
    ]
    config = {"members": [{"host": "m3:27017", "secondaryDelaySecs": Int64(3_600)}]}
    own = server(
        replSetGetStatus={"set": "rs0", "myState": 1, "members": members, "ok": 1.0},
        replSetGetConfig={"config": config, "ok": 1.0},
    )
    with serving(own):
        facts = facts_in(snapshot(connector(own), tmp_path))
    assert {(name, fact, value) for _, name, fact, value in facts} == {
        ("orders-db", "database_failed_over", "m1:27017 became primary 3 min ago"),
        ("m2:27017", "database_lagging", "95 s behind m1:27017"),
        ("m4:27017", "database_unavailable", "not reachable/healthy"),
    }


def test_a_set_without_a_primary_takes_no_writes(tmp_path: Path) -> None:
    members = [member("m1:27017", 2, "SECONDARY", datetime.now(UTC))]
    own = server(replSetGetStatus={"set": "rs0", "members": members, "ok": 1.0})
    assert told_of(own, tmp_path) == {"writes_refused": "replica set rs0 has no primary"}


def test_a_healthy_server_has_no_fact_and_shows_what_is_large(tmp_path: Path) -> None:
    own = server(running(5, secs_running=Int64(2)))
    with serving(own):
        found = snapshot(connector(own), tmp_path)
    assert (facts_of(found), found.missing) == ({}, ())
    [sizes] = [one for one in found.items if one.query.endswith(": dbStats")]
    assert list(sizes.details.values()) == [
        "shop: 7.5 GB\nadmin: 41 kB",
        "shop.events: 5.4 GB, 1.1 GB of it free\nshop.orders: 2.1 GB",
    ]


def test_only_commands_that_read_state_are_sent_each_with_a_limit_of_time(tmp_path: Path) -> None:
    own = server()
    with serving(own):
        snapshot(connector(own, statement_s=2), tmp_path)
        assert asyncio.run(connector(own).check()).ok
    constant = [value for value in vars(commands).values() if isinstance(value, Mapping)]
    ours = [one for one in own.asked if next(iter(one)) not in ("ping", "endSessions")]
    allowed = {next(iter(one)) for one in constant if one} - {"__name__"}
    assert {next(iter(one)) for one in ours} <= allowed
    assert {one["$db"] for one in ours} == {"admin", "shop"}
    assert {one["maxTimeMS"] for one in ours} == {2_000, 5_000}
    stages = [[next(iter(one)) for one in each["pipeline"]] for each in ours if "pipeline" in each]
    assert stages == [
        ["$currentOp", "$match", "$limit", "$project"],
        ["$currentOp", "$match", "$group", "$limit"],
        ["$collStats", "$project"],
        ["$collStats", "$project"],
    ]


def test_whoever_has_connections_calls_the_database(tmp_path: Path) -> None:
    own = server(
        connections=[
            connected(1, appName="checkout-api", effectiveUsers=[{"user": "shop", "db": "admin"}]),
            connected(2, appName="checkout-api", effectiveUsers=[{"user": "shop", "db": "admin"}]),
            connected(3, effectiveUsers=[{"user": "reports_rw", "db": "admin"}]),
            connected(4, appName="mongosh 2.3.1"),
            connected(5),
        ]
    )
    with serving(own):
        found = snapshot(connector(own), tmp_path)
    assert found.missing == ()
    calls = found.tables["topology"].select("caller", "callee", "source").rows()
    assert calls == [
        ("checkout", "orders-db", "database"),
        ("reports", "orders-db", "database_users"),
    ]


def test_what_a_user_may_not_read_is_a_gap_and_the_rest_stands(tmp_path: Path) -> None:
    refused = refusal(13, "not authorized on admin to execute command")
    own = server()
    own.answers = {
        **own.answers,
        "aggregate": lambda asked: refused if asked["aggregate"] == 1 else sizes(asked),
    }
    with serving(own):
        found = snapshot(connector(own), tmp_path)
    [gap] = found.missing
    assert gap.reason.startswith("mongodb aggregate: not permitted: ")
    assert len(found.items) == 2


@pytest.mark.parametrize("command", ["listCollections", "aggregate"])
def test_without_the_right_to_sizes_of_collections_those_of_databases_stand(
    command: str, tmp_path: Path
) -> None:
    refused = refusal(13, "not authorized on shop to execute command")
    own = server()
    usual: Any = own.answers[command]

    def answer(asked: Mapping[str, Any]) -> Mapping[str, Any]:
        return refused if asked["$db"] == "shop" else usual(asked)

    own.answers = {**own.answers, command: answer}
    with serving(own):
        found = snapshot(connector(own), tmp_path)
    [gap] = found.missing
    assert "not permitted: not authorized on shop" in gap.reason
    [item] = [one for one in found.items if one.query.endswith(": dbStats")]
    assert list(item.details) == ["largest databases"]
    assert len([one for one in own.asked if one["$db"] == "shop"]) <= 2, "it is not asked on"


def test_sizes_of_shards_are_added_and_a_collection_that_is_gone_is_passed_over(
    tmp_path: Path,
) -> None:
    def aggregate(asked: Mapping[str, Any]) -> Mapping[str, Any]:
        if asked["aggregate"] == 1:
            return cursor()
        if asked["aggregate"] == "events":
            return refusal(26, "Collection [shop.events] not found.")
        shard = {"storageStats": {"storageSize": Int64(GB), "totalIndexSize": Int64(GB)}}
        return cursor(shard, shard)

    own = server(aggregate=aggregate)
    with serving(own):
        found = snapshot(connector(own), tmp_path)
    assert found.missing == ()
    [item] = [one for one in found.items if one.query.endswith(": dbStats")]
    assert item.details["largest collections"] == "shop.orders: 4.3 GB"


def test_of_many_collections_some_are_asked_and_the_others_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faultline.connectors.vendors.mongodb.connector.MOST_COLLECTIONS", 12)
    many = [{"name": f"c{number:03d}", "type": "collection"} for number in range(32)]

    def aggregate(asked: Mapping[str, Any]) -> Mapping[str, Any]:
        if asked["aggregate"] == 1:
            return cursor()
        number = int(asked["aggregate"][1:])
        return cursor({"storageStats": {"totalSize": Int64(number * 1_000_000)}})

    own = server(aggregate=aggregate, listCollections=lambda _: cursor(*many))
    with serving(own):
        found = snapshot(connector(own), tmp_path)
    assert found.missing == ()
    [item] = [one for one in found.items if one.query.endswith(": dbStats")]
    lines = item.details["largest collections"].splitlines()
    assert lines[0] == "shop.c011: 11 MB"
    assert (len(lines), lines[-1]) == (11, "(20 collections were not asked)")


def test_a_server_that_is_slow_with_sizes_is_not_asked_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faultline.connectors.vendors.mongodb.connector.SIZES_WITHIN_S", -1.0)
    own = server()
    with serving(own):
        found = snapshot(connector(own), tmp_path)
    [gap] = found.missing
    assert gap.reason.endswith("2 were left")
    assert [one for one in own.asked if one["$db"] == "shop" and "aggregate" in one] == []


def test_check_says_what_is_missing_and_what_is_too_much() -> None:
    own = server()
    few = {"authenticatedUsers": [{"user": "shop", "db": "admin"}]}
    more = {**few, "authenticatedUserPrivileges": [{"actions": ["inprog", "insert", "find"]}]}
    with serving(own):
        good = asyncio.run(connector(own).check())
        own.answers = {**own.answers, "connectionStatus": {"authInfo": few, "ok": 1.0}}
        blind = asyncio.run(connector(own).check())
        own.answers = {**own.answers, "connectionStatus": {"authInfo": more, "ok": 1.0}}
        writer = asyncio.run(connector(own).check())
        own.answers = {**own.answers, "connectionStatus": {"authInfo": {}, "ok": 1.0}}
        nobody = asyncio.run(connector(own).check())
    at = f"MongoDB 7.0.14 at 127.0.0.1:{own.port} can be read"
    assert good.line == f"{at}; each command takes at most 5 s"
    assert blind.unread == ("operations of other users",)
    assert writer.line.endswith("; warning: this user can also write (insert)")
    assert nobody.line == f"{at}; warning: it asks for no password, so that everybody can write"


def test_a_user_logs_in_over_tls_whose_certificate_is_verified(tmp_path: Path) -> None:
    authority = OwnAuthority(tmp_path)
    files = authority.issue("m1", "127.0.0.1")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.cert, files.key)
    own = server()
    own.login = ("faultline", "pw-1")
    login = {"username": "faultline", "password": "pw-1", "tls": "verify"}
    with serving(own, context):
        known = snapshot(connector(own, **login, ca_file=str(authority.cert)), tmp_path)
        assert known.missing == ()
        own.asked.clear()
        unknown = snapshot(connector(own, **login), tmp_path)
        assert own.asked == []
    gap, of_calls = unknown.missing
    assert (gap.kind, of_calls.kind) == ("states", "topology")
    assert "certificate verify failed" in gap.reason


def test_a_wrong_password_is_a_gap_that_does_not_show_it(tmp_path: Path) -> None:
    own = server()
    own.login = ("faultline", "pw-1")
    with serving(own):
        wrong = connector(own, username="faultline", password="pw-2")
        gap, of_calls = snapshot(wrong, tmp_path).missing
        check = asyncio.run(wrong.check())
    assert (gap.kind, of_calls.kind) == ("states", "topology")
    assert gap.reason == "mongodb connect: Authentication failed."
    assert not check.ok


def test_an_incident_of_yesterday_is_a_gap(tmp_path: Path) -> None:
    request = live_request(tmp_path, ended_ago=timedelta(days=1))
    built = connector(MongodbServer({}, port=free_port()))
    [gap] = asyncio.run(collect_from(built, request)).missing
    assert gap.reason == "the server only tells of now, and the incident is over"


def test_an_answer_that_is_not_understood_is_a_gap(tmp_path: Path) -> None:
    own = server(serverStatus={"connections": "many", "ok": 1.0})
    with serving(own):
        found = snapshot(connector(own), tmp_path)
    [gap] = found.missing
    assert "unexpected response" in gap.reason


@pytest.mark.parametrize(
    "nonsense", [b"", b"HTTP/1.1 400\r\n\r\n", b"\xff\xff\xff\x7f" * 4, b"x" * 999]
)
def test_what_is_no_server_of_its_protocol_is_a_gap(nonsense: bytes, tmp_path: Path) -> None:
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.1)

        def answer() -> None:
            while not over.is_set():
                try:
                    accepted, _ = listening.accept()
                except TimeoutError:
                    continue
                with accepted:
                    accepted.sendall(nonsense)

        thread = threading.Thread(target=answer)
        thread.start()
        built = connector(MongodbServer({}, port=listening.getsockname()[1]), deadline_s=3)
        found = snapshot(built, tmp_path)
        over.set()
        thread.join(60)
    assert found.tables == {}
    gap, of_calls = found.missing
    assert (gap.kind, of_calls.kind) == ("states", "topology")
    assert "internal error" not in gap.reason
