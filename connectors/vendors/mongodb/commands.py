"""The commands that are sent: all of them read the server's state, none of them documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_OPERATIONS = 1000
FIELDS = (
    "opid",
    "type",
    "op",
    "ns",
    "client",
    "appName",
    "effectiveUsers.user",
    "secs_running",
    "waitingForLock",
    "locks",
    "lockStats",
    "planSummary",
    "command",
    "lsid.id",
    "transaction.timeOpenMicros",
)
SERVER_STATUS: Mapping[str, Any] = {
    "serverStatus": 1,
    # Large, and not needed.
    "metrics": 0,
    "tcmalloc": 0,
    "mirroredReads": 0,
}
REPLICA_SET: Mapping[str, Any] = {"replSetGetStatus": 1}
REPLICA_SET_CONFIG: Mapping[str, Any] = {"replSetGetConfig": 1}
DATABASES: Mapping[str, Any] = {"listDatabases": 1}
DISK: Mapping[str, Any] = {"dbStats": 1}
MOST_NAMES = 1000
COLLECTIONS: Mapping[str, Any] = {
    "listCollections": 1,
    # Views have no size, and the role may not read sizes of the server's own collections.
    "filter": {
        "type": {"$in": ["collection", "timeseries"]},
        "name": {"$not": {"$regex": r"^system\."}},
    },
    # A user without the action `listCollections` gets the names of those that it has any right
    # on, and nothing else ("listCollections", "Required Access").
    "nameOnly": True,
    "authorizedCollections": True,
    "cursor": {"batchSize": MOST_NAMES},
}
RIGHTS: Mapping[str, Any] = {"connectionStatus": 1, "showPrivileges": True}
OPERATIONS: Mapping[str, Any] = {
    "aggregate": 1,
    "pipeline": [
        {"$currentOp": {"allUsers": True, "idleSessions": True}},
        {
            "$match": {
                "$or": [
                    {"waitingForLock": True},
                    {"secs_running": {"$gte": 1}},
                    {"transaction": {"$exists": True}},
                ]
            }
        },
        {"$limit": MOST_OPERATIONS},
        {"$project": dict.fromkeys(FIELDS, 1)},
    ],
    "cursor": {"batchSize": MOST_OPERATIONS},
}
"""Who is where in the server ("$currentOp (aggregation stage)")."""

CLIENTS: Mapping[str, Any] = {
    "aggregate": 1,
    "pipeline": [
        {"$currentOp": {"allUsers": True, "idleConnections": True, "idleSessions": False}},
        {"$match": {"client": {"$exists": True}}},
        # A pool has hundreds of connections of one application.
        {"$group": {"_id": {"application": "$appName", "users": "$effectiveUsers.user"}}},
        {"$limit": MOST_OPERATIONS},
    ],
    "cursor": {"batchSize": MOST_OPERATIONS},
}
"""Whose connections there are, also those that do nothing now."""


def storage_of(collection: str) -> Mapping[str, Any]:
    """How much of the disk a collection takes ("$collStats (aggregation)"): one document, or one
    from each shard."""
    size_fields = ("totalSize", "storageSize", "totalIndexSize", "freeStorageSize")
    pipeline = [
        {"$collStats": {"storageStats": {}}},
        {"$project": {f"storageStats.{name}": 1 for name in size_fields}},
    ]
    return {"aggregate": collection, "pipeline": pipeline, "cursor": {}}
