"""wandb's GraphQL endpoint on loopback, in the shapes of the real one: wandb 0.31's own client
reads from it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.connectors.local_http import Asked, LocalServer, Reply

_OPERATION = re.compile(r"\s*(?:#graphql\s*)?(query|mutation)\s+(\w+)")


@dataclass
class StoredRun:
    """One run with its rows. `began` and a row's seconds since then give `_timestamp`."""

    id: str
    began: datetime
    name: str = "llm-1"
    state: str = "running"
    group: str | None = None
    commit: str | None = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"
    heartbeat: datetime | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    def log(self, step: int, seconds: float, values: Mapping[str, Any]) -> None:
        """What `run.log` would leave; NaN and Infinity are stored as the server gives them back: as
        text."""
        row = {"_step": step, "_runtime": seconds, "_timestamp": self.began.timestamp() + seconds}
        self.history.append(row | {k: _as_stored(v) for k, v in values.items()})

    def sample(self, seconds: float, values: Mapping[str, Any]) -> None:
        """A row of system metrics."""
        row = {"_runtime": seconds, "_timestamp": self.began.timestamp() + seconds, "_wandb": True}
        self.events.append(row | {f"system.{k}": _as_stored(v) for k, v in values.items()})

    @property
    def node(self) -> dict[str, Any]:
        """All fields that queries ask for."""
        keys = sorted({k for row in self.history for k in row})
        return {
            "id": f"UnVuOnYxOg=={self.id}",
            "projectId": "4711",
            "name": self.id,
            "displayName": self.name,
            "state": self.state,
            "group": self.group,
            "jobType": None,
            "commit": self.commit,
            "createdAt": _utc(self.began),
            "heartbeatAt": _utc(self.heartbeat or self.began),
            "config": json.dumps(
                {k: {"value": v, "desc": None} for k, v in self.config.items()} | _INTERNAL
            ),
            "historyKeys": {
                "sets": [],
                "keys": {k: {"typeCounts": [{"type": "number", "count": 1}]} for k in keys},
            }
            | {"lastStep": max((r["_step"] for r in self.history), default=-1)},
            "historyLineCount": len(self.history),
            "summaryMetrics": json.dumps(self.history[-1] if self.history else {}),
            "systemMetrics": json.dumps(self.events[-1] if self.events else {}),
            "tags": [],
            "sweepName": None,
            "readOnly": False,
            "description": None,
            "notes": None,
            "user": {"name": "ml", "username": "ml"},
        }


_INTERNAL = {"_wandb": {"value": {"python_version": "3.12", "cli_version": "0.31.0"}, "desc": None}}


class WandbServer:
    """Serves a project's runs at `/graphql` of a local server."""

    def __init__(
        self,
        server: LocalServer,
        entity: str = "ml",
        project: str = "pretrain",
        key: str = "k" * 40,
    ) -> None:
        self.server, self.entity, self.project, self.key = server, entity, project, key
        self.runs: list[StoredRun] = []
        self.queries: list[str] = []
        self.headers: dict[str, str] = {}
        server.on("/graphql", self._answer)

    def _answer(self, asked: Asked) -> Reply:
        body = json.loads(asked.body)
        operation = _OPERATION.match(body["query"])
        assert operation is not None
        assert operation[1] == "query"
        self.queries.append(operation[2])
        variables = body.get("variables") or {}
        if operation[2] == "Runs":
            found: dict[str, Any] | None = self._runs(variables)
        else:
            node = next((r for r in self.runs if r.id == variables.get("name")), None)
            found = {"run": _of_run(node, operation[2], body["query"], variables) if node else None}
        own = (variables.get("entity"), variables.get("project")) == (self.entity, self.project)
        return Reply({"data": {"project": found if own else None}}, headers=self.headers)

    def _runs(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        wanted = json.loads(variables.get("filters") or "{}")
        kept = [r for r in self.runs if _matches(r, wanted)]
        kept.sort(key=lambda r: r.began, reverse=(variables.get("order") or "").startswith("-"))
        count = variables.get("count") or variables.get("perPage") or 50
        edges = [{"node": r.node, "cursor": r.id} for r in kept[:count]]
        page = {"endCursor": kept[-1].id if kept else None, "hasNextPage": False}
        return {"internalId": "4711", "runCount": len(kept), "readOnly": False} | {
            "runs": {"edges": edges, "pageInfo": page}
        }


def _of_run(
    run: StoredRun, operation: str, text: str, variables: Mapping[str, Any]
) -> dict[str, Any]:
    if operation == "RunSampledHistory":
        return {"sampledHistory": [_sampled(run, json.loads(spec)) for spec in variables["specs"]]}
    if operation == "RunFullHistory":
        rows = run.events if "events(" in text else run.history
        field_name = "events" if "events(" in text else "history"
        return {
            field_name: [json.dumps(r) for r in _thinned(rows, variables.get("samples") or 500)]
        }
    return run.node


def _sampled(run: StoredRun, spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows that hold all keys of the specification, in its range of steps, at most as many as it
    asks for."""
    first, end = spec.get("minStep", 0), spec.get("maxStep", 1 << 60)
    rows = [
        {k: row[k] for k in spec["keys"]}
        for row in run.history
        if first <= row["_step"] < end and all(k in row for k in spec["keys"])
    ]
    return _thinned(rows, spec["samples"])


def _thinned(rows: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    return rows[:: max(1, -(-len(rows) // most))]


def _matches(run: StoredRun, wanted: Mapping[str, Any]) -> bool:
    values = {"display_name": run.name, "group": run.group}
    either: Iterable[Mapping[str, Any]] = wanted.get("$or") or [{}]
    return any(all(values.get(k) == v for k, v in one.items()) for one in either)


def _as_stored(value: Any) -> Any:
    if isinstance(value, float) and value != value:
        return "NaN"
    return (
        {float("inf"): "Infinity", float("-inf"): "-Infinity"}.get(value, value)
        if isinstance(value, float)
        else value
    )


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def training_run(
    id: str, began: datetime, hours: float = 3.0, *, step_s: float = 15.0, **given: Any
) -> StoredRun:
    """A run of this many hours that logs a step every 15 s, all of it sound, with one GPU's
    metrics."""
    run = StoredRun(id, began, **given)
    steps = int(hours * 3600 / step_s)
    for n in range(steps):
        wobble = 0.01 * ((n * 7919) % 13 - 6)
        values = {
            "loss": 3.0 - n / steps + 0.02 * wobble,
            "grad_norm": 1.0 + wobble,
            "throughput(tps)": 5000 + 50 * wobble,
        }
        values |= {
            "lr": 3e-4 * (1 - n / steps),
            "time_metrics/end_to_end(s)": step_s + 0.05 * wobble,
            "epoch": 1,
        }
        run.log(n, n * step_s, values)
        gpu = {
            "gpu": 97.0 + wobble,
            "memoryAllocated": 71.0 + wobble,
            "memoryAllocatedBytes": 6.1e10,
        }
        gpu |= {"temp": 66.0 + wobble, "powerWatts": 640.0 + wobble, "memory": 40.0}
        run.sample(
            n * step_s,
            {f"gpu.0.{k}": v for k, v in gpu.items()}
            | {"cpu": 12.0 + wobble, "proc.cpu.threads": 99},
        )
    run.heartbeat = given.get("heartbeat") or began + timedelta(hours=hours)
    return run
