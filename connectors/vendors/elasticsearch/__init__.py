"""Elasticsearch and OpenSearch: logs."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.elasticsearch.settings import ElasticsearchSettings

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
