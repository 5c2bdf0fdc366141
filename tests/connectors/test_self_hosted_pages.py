"""The pages of servers that one runs oneself name limits and settings as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultline.bot.settings import Settings, is_secret, secret_variable
from faultline.connectors.shared.rows import log_windows
from faultline.connectors.shared.settings.connector_settings import Limits, SelfHostedSettings
from faultline.connectors.vendors.alertmanager import connector as alertmanager
from faultline.connectors.vendors.argocd import connector as argocd
from faultline.connectors.vendors.elasticsearch import connector as elasticsearch
from faultline.connectors.vendors.elasticsearch import fields as elasticsearch_fields
from faultline.connectors.vendors.grafana import connector as grafana
from faultline.connectors.vendors.jaeger import connector as jaeger
from faultline.connectors.vendors.loki import connector as loki
from faultline.connectors.vendors.mlflow import connector as mlflow
from faultline.connectors.vendors.ray import connector as ray
from faultline.connectors.vendors.slurm import connector as slurm
from faultline.connectors.vendors.slurm import facts as slurm_facts
from faultline.connectors.vendors.tempo import connector as tempo
from faultline.connectors.vendors.tempo import traces as tempo_traces
from faultline.connectors.vendors.victorialogs import connector as victorialogs

DOCS = Path(__file__).resolve().parents[2] / "docs" / "connectors"
OWN = ("url", "token")
"""Keys that all of them have and each page tells of; the others are documented once."""
LIMITS = {
    "alertmanager": alertmanager.LIMITS,
    "argocd": argocd.ArgoCD.usual_limits,
    "elasticsearch": elasticsearch.LIMITS,
    "grafana": grafana.LIMITS,
    "jaeger": jaeger.LIMITS,
    "loki": loki.LIMITS,
    "mlflow": mlflow.LIMITS,
    "ray": ray.LIMITS,
    "slurm": slurm.LIMITS,
    "tempo": tempo.LIMITS,
    "victorialogs": victorialogs.LIMITS,
}


def page(name: str) -> str:
    """A page, with its line ends as spaces."""
    return " ".join((DOCS / f"{name}.md").read_text().split())


@pytest.mark.parametrize(("name", "limits"), LIMITS.items())
def test_documented_limits_are_the_real_ones(name: str, limits: Limits) -> None:
    text = page(name)
    pace = f"{limits.requests_per_s:g} requests a second and {limits.concurrency} at once"
    assert (
        f"At most {pace}, {limits.max_bytes // 1024**2} MiB and {limits.deadline_s:g} seconds"
        in text
    )


@pytest.mark.parametrize("name", LIMITS)
def test_every_setting_is_documented(name: str) -> None:
    section = Settings.model_fields[name].annotation
    assert isinstance(section, type)
    assert "[ways to log in](README.md#ways-to-log-in)" in page(name)
    for key in section.model_fields:
        said = secret_variable(name, key) if is_secret(section, key) else f"{name}.{key}"
        is_shared = key in SelfHostedSettings.model_fields and key not in OWN
        told_once = is_shared and f"`{key}" in page("README")
        assert told_once or f"`{said}`" in page(name), key


def test_documented_numbers_are_the_real_ones() -> None:
    said = page("loki")
    assert f"up to {loki.ERRORS:,} at once" in said
    assert f"up to {loki.SAMPLE} at once" in said
    assert (
        f"at most {loki.MOST_SERVICES} services and the latest "
        f"{log_windows.MOST_BASELINES} baseline windows"
    ) in said
    assert f"`{log_windows.ERROR_LINES}`, `{log_windows.LINES}`" in said
    assert all(level in said for level in log_windows.FAILING)
    said = page("elasticsearch")
    assert f"up to {elasticsearch.ERRORS:,} at once" in said
    assert f"up to {elasticsearch.SAMPLE} at once" in said
    assert (
        f"at most {elasticsearch.MOST_SERVICES} services and the latest "
        f"{log_windows.MOST_BASELINES} baseline windows"
    ) in said
    usual = elasticsearch_fields.FieldNames()
    places = (name for names in elasticsearch_fields.PLACES.values() for name in names)
    for name in (*usual.times, *usual.services, *usual.levels, *usual.messages, *places):
        assert f"`{name}`" in said, name
    said = page("mlflow")
    read = f"At most {mlflow.MOST_KEYS} metrics and {mlflow.MOST_SYSTEM_KEYS} system metrics"
    assert f"{read} are read, of each the first {mlflow.PAGE * mlflow.MOST_PAGES:,} values" in said
    assert all(f"`{label}`" in said for label in mlflow.RUN_LABELS)
    said = page("victorialogs")
    own = victorialogs.VictoriaLogsSettings()
    assert all(f"`{name}`" in said for name in (*own.service_fields, *own.level_fields))
    assert f"up to {victorialogs.ERRORS:,} at once" in said
    assert f"up to {victorialogs.SAMPLE} at once" in said
    assert f"at most {victorialogs.MOST_SERVICES} services" in said
    numbers = (slurm.MOST_ATTEMPTS, slurm_facts.MOST_NODES, slurm_facts.MOST_ROWS)
    read = "At most {} attempts, {} nodes of a job and {} rows of each kind are read"
    assert read.format(*numbers) in page("slurm")
    assert f"At most {ray.MOST_ROWS} rows of each kind are read" in page("ray")
    said = page("tempo")
    assert (
        f"at most {tempo.MOST_SERVICES} services, {tempo.MOST_TRACES} whole traces of each window"
        in said
    )
    assert f"{tempo_traces.MOST_SPANS_OF_A_TRACE:,} spans of each" in said
    assert f"| {tempo.FAILED} |" in said
    assert f"| {tempo.TYPICAL} of each |" in said
    said = page("jaeger")
    assert (
        f"at most {jaeger.MOST_SERVICES} services, {jaeger.MOST_EDGES:,} calls between services"
        in said
    )
    assert f"{jaeger.TYPICAL} traces of each third of the window, {jaeger.FAILED} failed" in said
    assert f"{alertmanager.MOST_ALERTS} are kept" in page("alertmanager")
    assert (
        f"{grafana.MOST_ANNOTATIONS} annotations of each kind, {grafana.MOST_ALERTS} alerts"
        in page("grafana")
    )
    assert all(f"`{tag}`" in page("grafana") for tag in Settings().grafana.change_tags)
