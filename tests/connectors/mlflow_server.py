"""A real MLflow tracking server on loopback, with SQLite and Basic authentication: the experiment
`pretrain`, which the user `faultline` may read, and `private`, which it may not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from faultline.loopback.bot_process import free_port
from tests.connectors.real_servers import programs
from tests.connectors.stand_ins.mlflow import API, StoredRun
from tests.contracts.emulators import TOOLS
from tests.debian_tools import unavailable

MLFLOW = TOOLS / "mlflow/bin/mlflow"
ADMIN = ("admin", "admin-password")
READER = ("faultline", "reader-password")
MOST_LOGGED = 1000
"""Values that one request may log."""
SETTINGS = """
[mlflow]
default_permission = NO_PERMISSIONS
database_uri = sqlite:///{folder}/users.db
admin_username = {user}
admin_password = {password}
auth_cache_ttl_seconds = 300
"""


@dataclass(frozen=True)
class MlflowTracking:
    """A server, and the id of each experiment."""

    url: str
    experiments: dict[str, str]

    def sent(self, path: str, api: str = API, **body: Any) -> Any:
        """The answer to a POST of the administrator's."""
        answer = httpx.post(f"{self.url}{api}/{path}", json=body, auth=ADMIN, timeout=60)
        assert answer.is_success, answer.text
        return answer.json()

    def asked(self, path: str, **query: Any) -> httpx.Response:
        """The answer to a GET of the reader's."""
        return httpx.get(f"{self.url}{API}/{path}", params=query, auth=READER, timeout=60)

    def keep(self, run: StoredRun) -> str:
        """The same run there, in `pretrain`; its id."""
        told = run.answered
        info, data = told["info"], told["data"]
        made = self.sent(
            "runs/create",
            experiment_id=self.experiments["pretrain"],
            run_name=run.name,
            user_id=info["user_id"],
            start_time=info["start_time"],
            tags=data["tags"],
        )
        id = str(made["run"]["info"]["run_id"])
        self.sent("runs/log-batch", run_id=id, params=data["params"])
        values = [value for values in run.metrics.values() for value in values]
        for first in range(0, len(values), MOST_LOGGED):
            self.sent("runs/log-batch", run_id=id, metrics=values[first : first + MOST_LOGGED])
        ended = {"end_time": info["end_time"]} if run.ended else {}
        self.sent("runs/update", run_id=id, status=run.status, **ended)
        return id


@contextmanager
def mlflow_tracking(folder: Path) -> Iterator[MlflowTracking]:
    """Without a run."""
    if not MLFLOW.exists():
        unavailable("MLflow is not installed: ./run test does that")
    port = free_port()
    user, password = ADMIN
    settings = folder / "basic_auth.ini"
    settings.write_text(SETTINGS.format(folder=folder, user=user, password=password))
    environment = {
        "MLFLOW_AUTH_CONFIG_PATH": str(settings),
        "MLFLOW_FLASK_SERVER_SECRET_KEY": "k" * 32,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
    }
    command = ("server", "--host=127.0.0.1", f"--port={port}", "--workers=1")
    kept = (f"--backend-store-uri=sqlite:///{folder}/runs.db", "--app-name=basic-auth")
    with programs(folder) as running:
        running.start(MLFLOW, *command, *kept, env=environment)
        server = MlflowTracking(f"http://127.0.0.1:{port}", {})
        running.until_answers(f"{server.url}/health")
        server.sent("users/create", username=READER[0], password=READER[1])
        for name in ("pretrain", "private"):
            made = server.sent("experiments/create", name=name)
            server.experiments[name] = made["experiment_id"]
        server.sent(
            "users/permissions/grant",
            "/api/3.0/mlflow",
            username=READER[0],
            resource_type="experiment",
            resource_id=server.experiments["pretrain"],
            permission="READ",
        )
        yield server
