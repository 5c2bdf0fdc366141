"""Elasticsearch and OpenSearch: logs."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr, model_validator

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import SelfHostedSettings
from faultline.connectors.shared.settings.settings_types import Names, Url


def _index_names(value: tuple[str, ...]) -> tuple[str, ...]:
    for name in value:
        is_plain = name.isascii() and name.isprintable() and not set(name) & set('/\\?#% "<>|')
        if not name or not is_plain or name.startswith("_"):
            raise ValueError("must be names or patterns of indices, such as logs-*")
    if not value:
        raise ValueError("must name an index")
    return value


class ElasticsearchSettings(SelfHostedSettings):
    """Elasticsearch or OpenSearch as a source of logs: docs/connectors/elasticsearch.md."""

    url: Url | None = None
    """Base of the HTTP API. Unset: Elasticsearch is not used."""
    api_key: SecretStr | None = None
    """Secret. API key as Kibana shows it in the format "Encoded"."""
    aws_service: str = Field(default="es", pattern="^(es|aoss)$")
    """The service that requests are signed for: `es`, or `aoss` of OpenSearch Serverless."""
    indices: Annotated[Names, AfterValidator(_index_names)] = (
        "logs-*",
        "filebeat-*",
        "logstash-*",
    )
    """Indices, data streams or aliases that hold logs. `*` stands for anything."""
    time_field: str | None = None
    """Field of a line's time. Unset: found, as the three below are."""
    service_fields: Names = ()
    """Fields that may name a service, in this order."""
    level_field: str | None = None
    """Field of a line's level."""
    message_field: str | None = None
    """Field of a line's text."""
    kibana_url: Url | None = None
    """Base of Kibana or OpenSearch Dashboards, with its space if it has one, for links."""
    data_view: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_.:*-]{1,200}$")
    """Id of the data view (index pattern) that links open. Unset: the default one."""

    @model_validator(mode="after")
    def _single_key(self) -> ElasticsearchSettings:
        other_logins = (self.token, self.token_file, self.cloud)
        if self.api_key is not None and any(login is not None for login in other_logins):
            raise ValueError("api_key and another way to log in are both set: set only one of them")
        return self


CONNECTOR = ConnectorType(
    name="elasticsearch",
    settings=ElasticsearchSettings,
    build="faultline.connectors.vendors.elasticsearch.connector:build",
    kinds=("logs", "metrics"),
    docs="elasticsearch.md",
    listing=Listing(
        title="Elasticsearch, OpenSearch",
        login="API key, Basic, AWS",
        places="fields of ECS and OpenTelemetry",
        permissions="`read`, `view_index_metadata` on the log indices",
        tested_against="a stand-in after the published specifications",
    ),
)
