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
