"""Settings of what the bot says about itself: metrics, traces, logs, health. docs/operating.md."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from faultline.connectors.shared.settings.settings_types import Section, Url

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
    # An IPv6 address stands in brackets.
    return host.strip("[]"), int(port)


class TelemetrySettings(Section):
    """Metrics, health, traces and logs of the bot: docs/operating.md."""

    metrics_address: Address | None = None
    """`host:port` where the web process serves `/metrics`, separate from the pages. Anyone who can
    reach it can read it, so use loopback or a private network. Unset: not served."""
    worker_address: Address | None = None
    """The same for a worker process, which also answers `/healthz` there. With port 0 each worker
    takes a free port and logs it. Unset: not served."""
    wedged_after_s: float = Field(default=180, ge=1)
    """Seconds after which a worker with a silent part is no longer healthy. Keep it above two
    minutes, the time a connection attempt to a dead database takes, or workers are restarted for
    that."""
    otlp_endpoint: Url | None = None
    """Base of an OpenTelemetry collector (OTLP over HTTP), such as `http://collector:4318`, which
    gets a trace of each investigation. Unset: none are recorded."""
    otlp_headers: SecretStr | None = None
    """Secret. Headers for it, as `name=value`, separated by commas."""
    logs: Literal["text", "json"] = "text"
    """Format of the log on standard error: `text`, or `json` for one object per line."""
    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    """The least severe of the bot's messages to log. Those of libraries are logged from `warning`
    on."""
    cloudwatch_namespace: Annotated[str, AfterValidator(_namespace)] | None = None
    """The namespace under which the web process logs the queue's length once a minute, in
    CloudWatch's embedded metric format. The Terraform module expects `Faultline`. Unset: not
    logged."""
