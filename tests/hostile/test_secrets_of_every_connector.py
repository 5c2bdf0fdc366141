"""Every vendor answers with a secret in each of its texts: none is in what a connector brings, in
its files, or in what it says of itself."""

from __future__ import annotations

import asyncio
from collections.abc import Set
from dataclasses import replace
from pathlib import Path

import pytest

from faultline.analysis.vocabulary import Alert
from faultline.connectors.asking import bounded
from faultline.connectors.registry import CONNECTORS
from faultline.connectors.shared.contract.base import Collected, Connector, collect_from
from tests.connectors.conftest import ALERT_AT, request_for
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.pagerduty_server import INCIDENT
from tests.connectors.test_read_only import (
    OVER_HTTP,
    aws_credentials,
    case,
    settings_for,
    stand_in,
)
from tests.hostile.planting import SECRET, planted, planted_bytes

__all__ = ["case"]

NO_TEXT = {"recorded", "prometheus", "wandb", "mlflow", "traces"}
"""They bring numbers, names and files; what is recorded was masked when it was collected, and
test_secrets_in_every_field.py plants in each of its fields."""
MORE_KEYS: dict[str, Set[str]] = {"jaeger": {"value"}, "http_source": {"name"}}
"""Fields of these vendors that hold text, under names that mean something else elsewhere."""
ALERT = Alert(source="pagerduty", id=INCIDENT, title="t", started_at=ALERT_AT)


class PlantingServer(LocalServer):
    """Gives its usual answers, with the secret behind every text."""

    more_keys: Set[str] = frozenset()

    def _reply(self, asked: Asked) -> Reply:
        reply = super()._reply(asked)
        return replace(reply, body=planted_bytes(reply.bytes, self.more_keys))


def text_of(found: Collected, files: Path) -> str:
    tables = [table.write_json() for table in found.tables.values()]
    kept = [path.read_text(errors="replace") for path in files.rglob("*") if path.is_file()]
    return "".join([*tables, *kept, repr(found.items), repr(found.missing)])


def collected(connector: Connector, folder: Path, *, at_the_edge: bool) -> str:
    folder.mkdir()
    request = request_for(folder, services=("checkout", "cart"), job="llm-1", alert=ALERT)
    brings = collect_from(connector, request) if at_the_edge else connector.collect(request)
    return text_of(asyncio.run(brings), folder)


@pytest.mark.parametrize("name", OVER_HTTP)
def test_a_connector_brings_none_and_its_check_says_none(
    name: str, case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws_credentials(monkeypatch)
    server = PlantingServer()
    server.more_keys = MORE_KEYS.get(name, frozenset())
    with server:
        stand_in(name).serve(server)
        connector = CONNECTORS[name].configured(settings_for(server, case, name))
        assert connector is not None
        heard = collected(connector, tmp_path / "heard", at_the_edge=False)
        assert (SECRET in heard) == (name not in NO_TEXT), "otherwise its absence shows nothing"
        kept = collected(connector, tmp_path / "kept", at_the_edge=True)
        assert SECRET not in kept
        assert ("[SECRET]" in kept) == (name not in NO_TEXT)
        assert SECRET not in repr(asyncio.run(bounded(name, connector.check)))
        said = planted({"error": "was refused", "message": "was refused", "detail": "was refused"})
        server.refusal = Reply(said, status=403)
        refused = collected(connector, tmp_path / "refused", at_the_edge=True)
        assert SECRET not in refused
        assert SECRET not in repr(asyncio.run(bounded(name, connector.check)))


def test_every_connector_without_a_server_of_its_own_in_these_tests_is_known() -> None:
    """The texts of these are masked statements and names, before real servers."""
    own = {"postgresql", "mysql", "mongodb", "redis", "rabbitmq", "nats", "kafka", "clickhouse"}
    assert set(CONNECTORS) - set(OVER_HTTP) == own
