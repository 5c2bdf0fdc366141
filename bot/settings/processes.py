"""Settings of the processes: where they listen, store and spool, what they keep and report."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from faultline.connectors.shared.settings.settings_types import Location, Networks, Section, Url


def names_this_machine(url: str) -> bool:
    """Whether an address leads to loopback. A public address means a proxy, and a proxy may hide
    its clients: by default nginx sends a loopback Host and no forwarding header.
    """
    host = _hostname(url)
    return host == "localhost" or is_loopback(host)


def ip_address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return (
        (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address
    )


def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    address = ip_address_of(host)
    return address is not None and address.is_loopback


class ServerSettings(Section):
    """Where the bot listens, and how others reach it."""

    host: str = "127.0.0.1"
    """Address to listen on. On any other than loopback the pages need `access_token` or a
    `login`."""
    port: int = Field(default=8080, ge=0, le=65535)
    """Port to listen on."""
    public_url: Url = "http://127.0.0.1:8080"
    """Base of the links in replies. Unset: this machine, with `port`."""
    max_body_bytes: int = Field(default=1_048_576, ge=1024)
    """A larger webhook body is refused with 413."""
    connections_per_address: int = Field(default=256, ge=4)
    """Open connections from one address (of IPv6 from one /64). With more, the one that has been
    without a complete request for longest is closed. `trusted_proxies` have no such limit."""
    access_token: SecretStr | None = None
    """Secret. Web pages ask for it. Without it and without a `login`, only this machine can open
    them, and nobody can if `public_url` is not a loopback address, because behind a proxy every
    visitor seems to be this machine."""
    trusted_proxies: Networks = ()
    """Addresses or networks of proxies whose `X-Forwarded-For` is believed. Name the proxies alone:
    every client in a network that stands here can claim any address."""
    drain_s: float = Field(default=0, ge=0, le=600)
    """On SIGTERM, seconds for which `/readyz` answers 503 before the server closes, so that a load
    balancer sends nothing more. Set it to a little more than its health checks take to notice."""

    @model_validator(mode="before")
    @classmethod
    def _is_here(cls, values: Any) -> Any:
        if not isinstance(values, dict) or "public_url" in values:
            return values
        port = str(values.get("port", ""))
        # Port 0 is any free one, which is known only once the server listens.
        has_port = port.isdecimal() and int(port) > 0
        return {**values, "public_url": f"http://127.0.0.1:{port}"} if has_port else values


class StoreSettings(Section):
    """Where durable data is stored."""

    directory: Path = Path(".faultline")
    """Holds the embedded databases and, unless `cases` says otherwise, the case folders."""
    database: SecretStr | None = None
    """`postgresql://...`, from the environment if it holds a password. Unset: embedded SQLite."""
    cases: Location | None = None
    """`s3://bucket/prefix` or a directory for the case folders. Unset: `directory`/cases."""

    @field_validator("database")
    @classmethod
    def _is_postgresql(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith("postgresql://"):
            raise ValueError("must begin with postgresql://")
        return value


class WorkerSettings(Section):
    """The processes that investigate."""

    concurrency: int = Field(default=8, ge=1, le=100)
    """Investigations at once in one worker process."""
    niceness: int = Field(default=10, ge=0, le=19)
    """Added to the worker's nice value, so that webhooks are answered first."""
    polling_interval_s: float = Field(default=0.25, gt=0, le=10)
    """How often a worker looks for new work while there is some, or where nothing tells it of new
    work."""
    grace_s: float = Field(default=20, ge=0, le=3600)
    """On SIGTERM a worker stops taking work and waits up to this many seconds for running work to
    finish. Another worker continues the rest at once. Orchestrators kill after 30 s by default,
    of which the server needs up to 5."""
    trace_processes: int | None = Field(default=None, ge=1, le=256)
    """Traces of large training jobs read at once in one worker process. Unset: one per core."""
    trace_deadline_s: float = Field(default=300, gt=0)
    """A trace that takes longer to read is reported as unreadable, and the other ranks are compared
    without it."""
    trace_memory_mb: int = Field(default=4096, ge=256)
    """Memory for reading one trace. One that needs more is reported as unreadable. A trace of 1 GB
    needs 0.5 GB."""


class SpoolSettings(Section):
    """Where alerts wait that the database has not taken within a second: docs/reliability.md."""

    directory: Path | None = None
    """A directory on a disk of this host. Only the bot's user can read it. Unset: `spool` in
    `store.directory`."""
    max_alerts: int = Field(default=10_000, ge=1)
    """Alerts that may wait there. More are answered 503, so that their senders try again."""
    max_bytes: int = Field(default=67_108_864, ge=65_536)
    """The same in bytes."""
    survives_restart: bool = True
    """Whether the directory is still there after a restart. Where it is not, as on Fargate, set
    `false`: `/healthz` then asks for no restart while alerts wait in it."""


class HeartbeatSettings(Section):
    """Signs of life, in and out: docs/operating.md#dead-mans-switch."""

    watchdog_alert: str = "Watchdog"
    """Name of the alert that always fires, in Alertmanager. It starts no investigation. Empty:
    none is one."""
    watchdog_minutes: float = Field(default=15, ge=1)
    """Once it has arrived, minutes without it until it counts as missing. Keep it above twice the
    `repeat_interval` of its route."""
    ping_url: SecretStr | None = None
    """Secret. An address that is called once a minute while alerts get into the database, and with
    `/fail` behind it while they do not, as Healthchecks.io has them."""

    @field_validator("ping_url")
    @classmethod
    def _is_http(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(("http://", "https://")):
            raise ValueError("must begin with https:// or http://")
        return value


LONGEST_DAYS = 36_500


class RetentionSettings(Section):
    """When data is deleted, in days. 0 keeps it forever. What runs, waits or is open stays:
    docs/operating.md."""

    investigations_days: float = Field(default=400, ge=0, le=LONGEST_DAYS)
    """Finished investigations, with their progress, posts, feedback, memory, conversation and case
    folder."""
    cases_days: float = Field(default=90, ge=0, le=LONGEST_DAYS)
    """Case folders, which hold the evidence: log lines, metrics, spans. The answer's headline
    stays."""
    conversations_days: float = Field(default=90, ge=0, le=LONGEST_DAYS)
    """Questions in Slack, and their answers."""
    progress_days: float = Field(default=90, ge=0, le=LONGEST_DAYS)
    """Progress lines."""
    deliveries_days: float = Field(default=400, ge=400, le=LONGEST_DAYS)
    """Ids of webhooks, which identify repeated deliveries and replayed requests."""
    changes_days: float = Field(default=90, ge=1, le=LONGEST_DAYS)
    """Changes reported to `/changes`."""
    calls_days: float = Field(default=90, ge=1, le=LONGEST_DAYS)
    """Calls between services, counted from when they were last seen."""
    engine_days: float = Field(default=14, ge=1, le=LONGEST_DAYS)
    """The engine's records of finished workflows, for `faultline doctor`."""
    sweep_minutes: float = Field(default=60, ge=1, le=1_440)
    """How often the workers look for data to delete, one worker at a time."""


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
