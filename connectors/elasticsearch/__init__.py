"""Elasticsearch and OpenSearch: logs."""

from connectors.connector_type import ConnectorType, Listing
from connectors.elasticsearch.settings import ElasticsearchSettings

CONNECTOR = ConnectorType(
    name="elasticsearch",
    settings=ElasticsearchSettings,
    build="connectors.elasticsearch.connector:build",
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
