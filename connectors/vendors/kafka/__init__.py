"""Kafka: consumer groups that are behind, partitions without a leader or out of sync."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import ServerIdentity, Tls

_BROKER = r"[^\s,@?#;/]+:\d{1,5}"


class KafkaSettings(ServerIdentity):
    """Kafka as a source of its own state: docs/connectors/kafka.md."""

    brokers: str | None = Field(default=None, max_length=2000, pattern=rf"^{_BROKER}(,{_BROKER})*$")
    """Some of its brokers, such as `kafka-1:9093,kafka-2:9093`. Unset: Kafka is not asked."""
    username: str | None = Field(default=None, min_length=1, max_length=255)
    """The user of SASL, who should have `Describe` and nothing else. Unset: no SASL."""
    password: SecretStr | None = None
    """Secret. The user's password. Of Confluent Cloud the secret of an API key."""
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    """How SASL proves the password. Confluent Cloud and Azure Event Hubs take `PLAIN`."""
    tls: Tls = "verify"
    """`verify` checks the brokers' certificates and their names, `require` only encrypts, `off`
    sends everything in the clear."""
    ca_file: Path | None = None
    """Certificates (PEM) of the authority that signed the brokers'. Unset: those of the system."""
    client_cert_file: Path | None = None
    """Client certificate (PEM), for brokers that require one."""
    client_key_file: Path | None = None
    """Its key. Unset: it is in `client_cert_file` too."""
    groups: tuple[str, ...] = ("*",)
    """Names or patterns of the consumer groups that are asked about. Leave out those that nobody
    uses any more: their lag looks like that of a consumer that is away."""
    sample_s: float = Field(default=5.0, ge=0, le=30)
    """Seconds between two readings of offsets, which tell how fast messages come and are read.
    0: read once."""


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
