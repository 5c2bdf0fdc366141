"""What a service is made of in AWS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from faultline.connectors.vendors.aws.session import AwsPlace

ResourceKind = Literal[
    "ecs",
    "target_group",
    "lambda",
    "database",
    "queue",
    "api",
    "dead_letter_queue",
    "table",
    "cache",
    "scaling_group",
    "instance",
    "stream",
    "state_machine",
    "nat_gateway",
    "db_cluster",
    "eks",
]


@dataclass(frozen=True)
class Resource:
    """A part of a service in AWS. `name` as in the settings: an ECS service is
    `cluster/service`."""

    kind: ResourceKind
    name: str
    service: str
    place: AwsPlace

    @property
    def short_name(self) -> str:
        """The name without what it belongs to."""
        return self.name.rpartition("/")[2] if self.kind == "ecs" else self.name

    @property
    def cluster(self) -> str:
        """The cluster of an ECS service."""
        return self.name.partition("/")[0]
