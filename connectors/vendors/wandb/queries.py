"""The queries that can be sent to wandb, the shapes of their answers, and the project that they are
about.

Fields and queries: wandb 0.31.0, wandb/apis/public/runs.py and history.py (the range of steps in a
sample's specification: wandb/apis/public/history.py at 05d7f97).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec

from faultline.analysis.errors import SettingsError
from faultline.connectors.shared.http.graphql import GraphQLQuery
from faultline.connectors.shared.training.training_runs import TrainingRun, measure_keys

# Without `config` and `historyKeys`, which are large: only a single run is asked for them.
_FIELDS = "name displayName state group commit createdAt heartbeatAt"
RUN = GraphQLQuery(
    "Run",
    "query Run($entity: String!, $project: String!, $name: String!) { "
    "project(name: $project, entityName: $entity) "
    f"{{ run(name: $name) {{ {_FIELDS} config historyKeys }} }} }}",
)
RUNS = GraphQLQuery(
    "Runs",
    "query Runs($entity: String!, $project: String!, $filters: "
    "JSONString, $order: String, $count: Int) "
    "{ project(name: $project, entityName: $entity) { runs(filters: "
    "$filters, order: $order, first: $count) "
    f"{{ edges {{ node {{ {_FIELDS} }} }} }} }} }}",
)
# A sample: the whole history of a long run is too large.
HISTORY = GraphQLQuery(
    "RunSampledHistory",
    "query RunSampledHistory($entity: String!, $project: String!, "
    "$name: String!, $specs: [JSONString!]!) "
    "{ project(name: $project, entityName: $entity) { run(name: "
    "$name) { sampledHistory(specs: $specs) } } }",
)
SYSTEM = GraphQLQuery(
    "RunFullHistory",
    "query RunFullHistory($entity: String!, $project: String!, $name: String!, $samples: Int) "
    "{ project(name: $project, entityName: $entity) { run(name: "
    "$name) { events(samples: $samples) } } }",
)
QUERIES = (RUN, RUNS, HISTORY, SYSTEM)
"""All that can be sent."""


@dataclass(frozen=True)
class WandbProject:
    """Where a job's runs are."""

    entity: str
    project: str

    @property
    def variables(self) -> dict[str, Any]:
        """As the queries take it."""
        return {"entity": self.entity, "project": self.project}

    def __str__(self) -> str:
        return f"{self.entity}/{self.project}"


class WandbRun(TrainingRun):
    """A run as the queries ask for it."""

    historyKeys: Any = None


class _WandbNode(msgspec.Struct):
    node: WandbRun


class _Edges(msgspec.Struct):
    edges: list[_WandbNode]


class RunData(msgspec.Struct):
    run: WandbRun | None = None
    runs: _Edges | None = None


class RunAnswer(msgspec.Struct):
    project: RunData | None = None


class _Rows(msgspec.Struct):
    sampledHistory: list[Any] | None = None
    events: list[Any] | None = None


class _RowsData(msgspec.Struct):
    run: _Rows | None = None


class RowsAnswer(msgspec.Struct):
    project: _RowsData | None = None

    @property
    def rows(self) -> _Rows:
        """Of the run; none where it is not there or not to be seen."""
        return (self.project.run if self.project else None) or _Rows()


def place_of(entity: str | None, text: str) -> WandbProject:
    """`project`, or `entity/project` as wandb's pages show it."""
    owner, slash, project = text.partition("/")
    owner, project = (owner, project) if slash else (entity or "", text)
    if not owner or not project or "/" in project:
        raise SettingsError(
            "wandb.project", f"{text!r} must be a project of wandb.entity, or entity/project"
        )
    return WandbProject(owner, project)


def page_address(base_url: str) -> str:
    """The pages that belong to an API's address: api.wandb.ai to wandb.ai, api.example.com to
    app.example.com."""
    host = urlsplit(base_url).hostname or ""
    if host == "api.wandb.ai":
        return "https://wandb.ai"
    return base_url.replace("://api.", "://app.", 1) if host.startswith("api.") else base_url


def history_keys(run: WandbRun) -> list[str]:
    """The keys that are brought, those that are known to mean something; the plainest name of each
    measure first."""
    keys = run.historyKeys.get("keys") if isinstance(run.historyKeys, dict) else None
    if not isinstance(keys, dict):
        return []
    return measure_keys(keys)


def last_step(run: WandbRun) -> int:
    """The last step of the history; -1 where there is none."""
    step = run.historyKeys.get("lastStep") if isinstance(run.historyKeys, dict) else None
    return step if isinstance(step, int) and 0 <= step < 2**53 else -1


def event_rows(lines: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Rows of system metrics: each comes as a text that holds JSON."""
    for line in lines:
        try:
            row = json.loads(line) if isinstance(line, str) else line
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row
