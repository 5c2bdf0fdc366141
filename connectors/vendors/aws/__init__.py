"""AWS: CloudWatch, Logs Insights, X-Ray, CloudTrail and deployments."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import ConnectorSettings
from faultline.connectors.shared.settings.settings_types import Names, Section, Url

_REGION = re.compile(r"[a-z]{2,4}(-[a-z]{2,10}){1,2}-\d{1,2}")
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]{1,512}")
_TOPIC = re.compile(r"arn:aws[a-z-]*:sns:([a-z0-9-]{1,30}):\d{12}:[\w-]{1,256}(\.fifo)?")


def _regions(values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if not _REGION.fullmatch(value):
            raise ValueError(f"{value[:40]!r} is not a region such as eu-west-1")
    return values


Regions = Annotated[Names, AfterValidator(_regions)]


class AwsAccountSettings(Section):
    """One account, read by a role in it."""

    name: str = Field(min_length=1, max_length=64)
    """Its name in evidence and gaps."""
    role_arn: str
    """The role to assume. The session gets a policy that allows reading alone, whatever the role
    may."""
    external_id: str | None = Field(default=None, min_length=2, max_length=1224)
    """What the role's trust policy asks for as `sts:ExternalId`. Not a secret."""
    regions: Regions = ()
    """Unset: `aws.regions`."""

    @field_validator("role_arn")
    @classmethod
    def _is_role(cls, value: str) -> str:
        if not _ROLE.fullmatch(value):
            raise ValueError("must be arn:aws:iam::123456789012:role/name")
        return value


class AwsSettings(ConnectorSettings):
    """AWS as a source, and CloudWatch alarms through SNS: docs/connectors/aws.md."""

    regions: Regions = ()
    """Regions to read. Unset: AWS is not used, unless accounts name regions."""
    accounts: tuple[AwsAccountSettings, ...] = ()
    """Tables `[[aws.accounts]]` (`name`, `role_arn`, `external_id`, `regions`), only in the file.
    Unset: the account of the bot's own credentials, which are found as boto3 finds them."""
    sns_topics: Names = ()
    """ARNs of SNS topics whose alarms start investigations. Only their subscriptions are
    confirmed."""
    logs_max_scanned_gb: float = Field(default=20, gt=0)
    """GB that Logs Insights may scan for one investigation. A query beyond it is stopped, and the
    report says so."""
    endpoint_url: Url | None = None
    """Another address for all AWS calls, for tests."""

    @field_validator("sns_topics")
    @classmethod
    def _are_topics(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            if not _TOPIC.fullmatch(value):
                raise ValueError(
                    f"{value[:80]!r} is not a topic such as arn:aws:sns:eu-west-1:1234:alarms"
                )
        return values


CONNECTOR = ConnectorType(
    name="aws",
    settings=AwsSettings,
    build="faultline.connectors.vendors.aws.connector:build",
    kinds=("metrics", "logs", "spans", "changes", "topology", "monitors", "states"),
    docs="aws.md",
    listing=Listing(
        title="AWS",
        login="as boto3 finds it, roles of accounts",
        places="accounts and regions",
        permissions="a policy of reading calls",
        tested_against="two emulators; AWS' own service models",
        also="state of databases",
    ),
    several=False,
)
