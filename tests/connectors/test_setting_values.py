"""Which values the settings of each connector take, on both sides of each bound."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from faultline.connectors.registry import CONNECTORS
from faultline.connectors.shared.settings.connector_settings import SelfHostedSettings
from faultline.connectors.shared.settings.settings_types import Section
from faultline.connectors.vendors.aws import AwsAccountSettings
from faultline.connectors.vendors.mcp_servers import McpToolSettings

A_COLUMN = {"time": "at", "message": "text"}
TAKEN: list[tuple[str, dict[str, Any]]] = [
    ("aws", {"regions": "eu-west-1, us-gov-west-1, ap-southeast-12"}),
    ("aws", {"sns_topics": ["arn:aws:sns:eu-west-1:123456789012:alarms"]}),
    ("aws", {"sns_topics": ["arn:aws-cn:sns:cn-north-1:123456789012:alarms.fifo"]}),
    ("aws", {"logs_max_scanned_gb": 0.1}),
    ("azure_monitor", {"webhook_audience": "a", "webhook_tenant_id": "t"}),
    ("azure_monitor", {"webhook_audience": "a", "tenant_id": "t"}),
    ("azure_monitor", {"tenant_id": "t"}),
    ("jenkins", {"jobs": ["shop/deploy checkout", f"{'x' * 300}"]}),
    ("circleci", {"projects": ["gh/acme/checkout"]}),
    ("bitbucket", {"repositories": ["acme/checkout"]}),
    ("datadog", {"site": "datadoghq.eu"}),
    ("datadog", {"app_host": "acme.datadoghq.com"}),
    ("datadog", {"app_host": "a"}),
    ("datadog", {"app_host": None}),
    ("elasticsearch", {"indices": "logs-*, filebeat-2026"}),
    ("elasticsearch", {"api_key": "k", "url": "https://es"}),
    ("elasticsearch", {"token": "t", "url": "https://es"}),
    ("flagsmith", {"projects": ["0", "9" * 11]}),
    ("unleash", {"projects": ["default", "a.b", f"{'x' * 200}"]}),
    ("kubernetes", {"kubeconfig": "~/.kube/config", "context": "prod"}),
    ("kubernetes", {"url": "https://cluster"}),
    ("splunk", {"indexes": ["main", "service.name", "a-b_*"]}),
    ("loki", {"token": "t"}),
    ("loki", {"token_file": "/run/token"}),
    ("loki", {"cloud": "google"}),
    ("loki", {"client_cert_file": "/c.pem", "client_key_file": "/k.pem"}),
    ("loki", {"client_cert_file": "/c.pem"}),
    ("loki", {"url": "http://loki:3100/"}),
]
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("aws", {"regions": "eu-west"}, "is not a region"),
    ("aws", {"regions": "eu-west-1,eu-west-123"}, "is not a region"),
    ("aws", {"sns_topics": ["arn:aws:sns:eu-west-1:12345678901:alarms"]}, "sns"),
    ("aws", {"sns_topics": ["arn:aws:sqs:eu-west-1:123456789012:alarms"]}, "sns"),
    ("aws", {"logs_max_scanned_gb": 0}, "greater than 0"),
    ("azure_monitor", {"webhook_audience": "a"}, "webhook_audience needs webhook_tenant_id"),
    ("jenkins", {"jobs": ["shop//deploy"]}, "must be paths of jobs"),
    ("jenkins", {"jobs": ["shop/.."]}, "must be paths of jobs"),
    ("jenkins", {"jobs": ["shop/a\tb"]}, "must be paths of jobs"),
    ("jenkins", {"jobs": ["x" * 301]}, "must be paths of jobs"),
    ("circleci", {"projects": ["acme/checkout"]}, "must be slugs of projects"),
    ("circleci", {"projects": ["gh/acme/.."]}, "must be names of letters"),
    ("bitbucket", {"repositories": ["checkout"]}, "must be workspace/repository"),
    ("bitbucket", {"repositories": ["a/b/c"]}, "must be workspace/repository"),
    ("datadog", {"site": "datadoghq.example"}, "must be one of"),
    ("datadog", {"app_host": "https://acme.datadoghq.com"}, "must be a host name"),
    ("datadog", {"app_host": "acme."}, "must be a host name"),
    ("datadog", {"app_host": ""}, "must be a host name"),
    ("elasticsearch", {"indices": "logs-*,_all"}, "must be names or patterns of indices"),
    ("elasticsearch", {"indices": "logs/_search"}, "must be names or patterns of indices"),
    ("elasticsearch", {"indices": ["lögs"]}, "must be names or patterns of indices"),
    ("elasticsearch", {"indices": [""]}, "must be names or patterns of indices"),
    ("elasticsearch", {"indices": ""}, "must name an index"),
    ("elasticsearch", {"api_key": "k", "token": "t"}, "another way to log in"),
    ("elasticsearch", {"api_key": "k", "token_file": "/t"}, "another way to log in"),
    ("elasticsearch", {"api_key": "k", "cloud": "aws"}, "another way to log in"),
    ("flagsmith", {"projects": ["9" * 12]}, "must be the numbers of projects"),
    ("flagsmith", {"projects": ["1", "x"]}, "must be the numbers of projects"),
    ("flagsmith", {"projects": ["٣"]}, "must be the numbers of projects"),
    ("unleash", {"projects": ["x" * 201]}, "must be names of letters"),
    ("unleash", {"projects": [".."]}, "must be names of letters"),
    ("unleash", {"projects": ["a/b"]}, "must be names of letters"),
    ("kubernetes", {"url": "https://c", "kubeconfig": "/k"}, "url and kubeconfig are both set"),
    ("kubernetes", {"context": "prod"}, "context needs kubeconfig"),
    ("splunk", {"indexes": ["main", ""]}, "must be plain names"),
    ("splunk", {"indexes": ["a b"]}, "must be plain names"),
    ("splunk", {"indexes": ["é"]}, "must be plain names"),
    ("loki", {"token": "t", "token_file": "/t"}, "token and token_file are both set"),
    ("loki", {"token": "t", "cloud": "aws"}, "a token and cloud are both set"),
    ("loki", {"token_file": "/t", "cloud": "aws"}, "a token and cloud are both set"),
    ("loki", {"client_key_file": "/k.pem"}, "client_key_file needs client_cert_file"),
    ("loki", {"url": "loki:3100"}, "must begin with http"),
]


def made(name: str, values: dict[str, Any]) -> Section:
    return CONNECTORS[name].settings.model_validate(values)


@pytest.mark.parametrize(("name", "values"), TAKEN)
def test_a_value_within_bounds_is_taken(name: str, values: dict[str, Any]) -> None:
    settings = made(name, values)
    for key, value in values.items():
        read = getattr(settings, key)
        read = read.get_secret_value() if isinstance(read, SecretStr) else read
        if isinstance(value, list):
            assert read == tuple(value)
        elif key == "url":
            assert read == value.rstrip("/")
        elif key not in ("kubeconfig", "token_file") and isinstance(read, str):
            assert read == value


@pytest.mark.parametrize(("name", "values", "problem"), REFUSED)
def test_a_value_out_of_bounds_is_refused(name: str, values: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        made(name, values)


@pytest.mark.parametrize(
    ("role", "is_role"),
    [
        ("arn:aws:iam::123456789012:role/faultline", True),
        ("arn:aws-us-gov:iam::123456789012:role/ops/read", True),
        ("arn:aws:iam::12345678901:role/faultline", False),
        ("arn:aws:iam::123456789012:user/faultline", False),
        ("arn:aws:iam::123456789012:role/", False),
    ],
)
def test_a_role_is_a_role(role: str, *, is_role: bool) -> None:
    if is_role:
        assert (
            AwsAccountSettings.model_validate({"name": "prod", "role_arn": role}).role_arn == role
        )
    else:
        with pytest.raises(ValidationError, match="must be arn:aws:iam"):
            AwsAccountSettings.model_validate({"name": "prod", "role_arn": role})


@pytest.mark.parametrize(
    ("length", "is_taken"), [(1, False), (2, True), (1224, True), (1225, False)]
)
def test_an_external_id_has_the_length_that_aws_takes(length: int, *, is_taken: bool) -> None:
    values = {
        "name": "prod",
        "role_arn": "arn:aws:iam::123456789012:role/a",
        "external_id": "x" * length,
    }
    if is_taken:
        assert AwsAccountSettings.model_validate(values).external_id == "x" * length
    else:
        with pytest.raises(ValidationError, match="external_id"):
            AwsAccountSettings.model_validate(values)


def test_rows_of_a_tool_need_a_table() -> None:
    for values in ({"columns": A_COLUMN}, {"items": "rows"}):
        with pytest.raises(ValidationError, match="items and columns need table"):
            McpToolSettings.model_validate(values)


def test_one_way_to_log_in_is_enough() -> None:
    both = SelfHostedSettings.model_validate({"username": "u", "token": "t", "tenant": "x" * 500})
    assert both.tenant == "x" * 500
    with pytest.raises(ValidationError):
        SelfHostedSettings.model_validate({"tenant": "x" * 501})
    with pytest.raises(ValidationError):
        SelfHostedSettings.model_validate({"username": "u:v"})
