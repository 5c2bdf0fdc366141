"""Elasticsearch and OpenSearch: logs."""

from connectors.connector_type import ConnectorType
from connectors.elasticsearch.settings import ElasticsearchSettings

CONNECTOR = ConnectorType(
    name="elasticsearch",
    settings=ElasticsearchSettings,
    build="connectors.elasticsearch.connector:build",
    kinds=("logs", "metrics"),
    docs="elasticsearch.md",
)
