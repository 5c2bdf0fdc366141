"""slurmrestd of a training cluster: job llm-1 lost node gpu-07 at ONSET and was requeued; the node
is drained."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply

READING_POSTS: frozenset[str] = frozenset()
VERSION = "v0.0.44"
NAME = "llm-1"
NODES = "gpu-[05-08]"
DRAINED = "Xid 79: GPU has fallen off the bus"
Object = dict[str, Any]


def settings(url: str) -> dict[str, Any]:
    """With a token."""
    return {"slurm": {"url": url, "token": "t" * 40}}


def serve(
    server: LocalServer, version: str = VERSION, jobs: Sequence[Object] | None = None
) -> None:
    """One version, with an accounting."""
    known = [lost(), requeued()] if jobs is None else list(jobs)
    server.on(f"/slurm/{version}/ping/", Reply(answer(pings=[ping()])))
    server.on(f"/slurm/{version}/nodes/", Reply(answer(nodes=nodes(), last_update=number(1))))

    def accounted(asked: Asked) -> Reply:
        """Filtered by name or id and by time, as the accounting does."""
        wanted = asked.query
        start, end = (int(wanted[name][0]) for name in ("start_time", "end_time"))
        found = []
        for job in known:
            named = job["name"] in wanted.get("job_name", [job["name"]])
            numbered = str(job["job_id"]) in wanted.get("step", [str(job["job_id"])])
            ended = job["time"]["end"] or end
            if named and numbered and job["time"]["submission"] <= end and ended >= start:
                found.append(job)
        return Reply(answer(jobs=found))

    server.on(f"/slurmdb/{version}/jobs/", accounted)


def answer(**content: Any) -> Object:
    """As every answer is wrapped."""
    return {**content, "meta": {}, "errors": [], "warnings": []}


def refused(description: str) -> Object:
    """An answer that is an error."""
    error = {"description": description, "error_number": 2, "error": "failed", "source": "slurmdbd"}
    return {"jobs": [], "meta": {}, "errors": [error], "warnings": []}


def ping() -> Object:
    return {"hostname": "ctl-1", "responding": True, "latency": 120, "primary": True}


def number(value: int | None) -> Object:
    return {"set": value is not None, "infinite": False, "number": value or 0}


def ended(code: int | None = None, signal: int | None = None) -> Object:
    """How a process ended."""
    name = {9: "KILL", 15: "TERM"}.get(signal or 0, "")
    return {
        "status": ["SIGNALED" if signal else "ERROR" if code else "SUCCESS"],
        "return_code": number(code),
        "signal": {"id": number(signal), "name": name},
    }


def job(states: Sequence[str], **given: Any) -> Object:
    """A job of the accounting. Times as datetimes."""
    start: datetime = given.pop("start", ALERT_AT - timedelta(hours=3))
    end: datetime | None = given.pop("end", ALERT_AT - timedelta(minutes=2))
    limit: int | None = given.pop("limit", 1440)
    reason: str = given.pop("reason", "None")
    own: Object = {
        "job_id": 4711,
        "name": NAME,
        "user": "ml",
        "partition": "train",
        "nodes": NODES,
        "failed_node": "",
        "restart_cnt": 0,
        "exit_code": ended(0),
    }
    times = {
        "submission": int(start.timestamp()) - 60,
        "start": int(start.timestamp()),
        "end": int(end.timestamp()) if end else 0,
        "limit": number(limit),
    }
    return {**own, "time": times, "state": {"current": list(states), "reason": reason}, **given}


def lost() -> Object:
    """The attempt that a node's failure ended."""
    return job(["NODE_FAIL"], end=ONSET, failed_node="gpu-07", reason="NodeDown")


def requeued() -> Object:
    """The attempt after it, on other nodes."""
    start = ONSET + timedelta(minutes=3)
    return job(["RUNNING"], start=start, end=None, nodes="gpu-[05-06,08-09]", restart_cnt=1)


def controlled(states: Sequence[str], **given: Any) -> Object:
    """A job of the controller."""
    start: datetime = given.pop("start", ALERT_AT - timedelta(hours=3))
    own: Object = {
        "job_id": 4711,
        "name": NAME,
        "job_state": list(states),
        "state_reason": "NonZeroExitCode",
        "submit_time": number(int(start.timestamp()) - 60),
        "start_time": number(int(start.timestamp())),
        "end_time": number(int(ONSET.timestamp())),
        "time_limit": number(1440),
        "exit_code": ended(1),
        "nodes": NODES,
        "partition": "train",
        "restart_cnt": 2,
    }
    return {**own, **given}


def node(name: str, states: Sequence[str], reason: str = "", partition: str = "train") -> Object:
    """One node; its reason was set at ONSET."""
    at = int(ONSET.timestamp()) if reason else None
    return {
        "name": name,
        "state": list(states),
        "reason": reason,
        "reason_changed_at": number(at),
        "reason_set_by_user": "root",
        "partitions": [partition],
    }


def nodes() -> list[Object]:
    """Those of the job, one of them drained, and others that are down."""
    found = [node(f"gpu-{n:02d}", ["ALLOCATED"]) for n in (5, 6, 8, 9)]
    found.append(node("gpu-07", ["IDLE", "DRAIN"], DRAINED))
    found.append(node("gpu-30", ["DOWN", "NOT_RESPONDING"], "Not responding"))
    found.append(node("cpu-01", ["DOWN"], "disk", partition="batch"))
    found.append(node("gpu-31", ["IDLE", "POWERED_DOWN"]))
    return found
