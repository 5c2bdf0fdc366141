"""Kafka: consumer groups that are behind, partitions without a leader or out of sync."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.kafka.settings import KafkaSettings

CONNECTOR = ConnectorType(
    name="kafka",
    settings=KafkaSettings,
    build="faultline.connectors.vendors.kafka.connector:build",
    kinds=("states",),
    docs="kafka.md",
    listing=Listing(
        title="Kafka",
        login="SASL (PLAIN, SCRAM), client certificate",
        places="one cluster each",
        permissions="`Describe` on topics, groups and the cluster",
        tested_against="librdkafka's mock cluster; a stand-in after the protocol's schemas",
        also="lag of consumer groups",
    ),
)
