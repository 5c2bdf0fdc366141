"""Settings of what the bot says about itself: metrics, traces, logs, health. docs/operating.md."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from connectors.settings_types import Section, Url

_ADDRESS = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
_NAMESPACE = re.compile(r"(?!AWS/)[A-Za-z0-9._\-/#:]{1,255}")
"""https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_MetricDatum.html and
"PutMetricData": which characters a namespace may have; those that begin with AWS/ are Amazon's own.
No blanks, so that lines stay plain."""


def _address(value: str) -> str:
    if not _ADDRESS.fullmatch(value) or int(value.rpartition(":")[2]) > 65535:
        raise ValueError("must be host:port such as 127.0.0.1:9464 or [::1]:9464")
    return value


def _namespace(value: str) -> str:
    if not _NAMESPACE.fullmatch(value):
        raise ValueError("must be letters, digits and . _ - / # : and not begin with AWS/")
    return value


Address = Annotated[str, AfterValidator(_address)]
"""`host:port`; port 0 takes any free one."""


def host_and_port(address: str) -> tuple[str, int]:
    """The two parts of an address."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


class TelemetrySettings(Section):
    """What the bot says about itself to those who operate it: docs/operating.md."""

    metrics_address: Address | None = None
    """`host:port` at which the web process serves `/metrics` to Prometheus, apart from the pages.
    Whoever reaches it may read it: keep it on loopback or a private network. Unset: it is not
    served."""
    worker_address: Address | None = None
    """The same of a worker process, which also answers `/healthz` there. With port 0 each worker
    takes a free one and says in its log which. Unset: not served."""
    wedged_after_s: float = Field(default=180, ge=1)
    """Seconds after which a worker with a silent part is no longer healthy.
    Shorter than a connection attempt to a database that is gone (about two minutes), it would be
    restarted for that."""
    otlp_endpoint: Url | None = None
    """Base of an OpenTelemetry collector that takes OTLP over HTTP, such as
    `http://collector:4318`: it gets a trace of each investigation. Unset: none are recorded."""
    otlp_headers: SecretStr | None = None
    """Secret. Headers for it, as `name=value`; several separated by commas."""
    logs: Literal["text", "json"] = "text"
    """Form of the log on standard error: lines to read, or one JSON object a line."""
    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    """The least severe of our own messages that is logged; those of libraries are logged from
    `warning` on."""
    cloudwatch_namespace: Annotated[str, AfterValidator(_namespace)] | None = None
    """When set, the web process logs once a minute how long the queue is, in CloudWatch's embedded
    metric format under this namespace. `Faultline` is what the Terraform module expects. Unset: it
    does not."""
