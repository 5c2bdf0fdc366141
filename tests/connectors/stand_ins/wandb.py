"""wandb: one run of the job llm-1."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.connectors.conftest import ALERT_AT
from tests.connectors.local_http import LocalServer
from tests.connectors.wandb_server import WandbServer, training_run

READING_POSTS = frozenset({"/graphql"})
"""GraphQL needs POST; which documents may be posted is fixed: tests/connectors/test_graphql.py."""


def settings(url: str) -> dict[str, Any]:
    """One project."""
    return {"wandb": {"base_url": url, "entity": "ml", "project": "pretrain", "api_key": "k" * 40}}


def serve(server: LocalServer) -> None:
    """The project with its run."""
    WandbServer(server).runs.append(training_run("r1", ALERT_AT - timedelta(hours=3)))
