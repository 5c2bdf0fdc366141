"""Settings of what an investigation does: its windows, the model, runbooks, redaction, training
jobs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from faultline.analysis.secrets.redaction import BadPattern, Rule, compiled
from faultline.connectors.shared.settings.settings_types import Location, Names, Section, Url
from faultline.connectors.shared.settings.shared_settings import JobLocations


class InvestigationSettings(Section):
    """Windows and rules of every investigation."""

    incident_minutes: float = Field(default=30, gt=0)
    """How far the incident window reaches back before the alert."""
    incident_hours: float = Field(default=6, gt=0)
    """How far it reaches beyond the alert at most, for alerts that are investigated late."""
    baseline_minutes: float = Field(default=120, gt=0)
    """Length of the baseline window, which ends where the incident window begins. Both are shorter
    where metrics begin later."""
    history_days: int = Field(default=0, ge=0, le=14)
    """Days whose same hours are compared as well, so that what happens every night is discounted.
    Each day adds a window to every query for metrics."""
    memory_days: float = Field(default=90, ge=0, le=36_500)
    """Age up to which earlier investigations are tested again on a new alert: docs/memory.md. 0:
    none are."""
    learned_calls_days: float = Field(default=30, ge=0, le=36_500)
    """Age up to which calls between services are remembered from earlier investigations, for pairs
    that nothing collected covers: docs/who-calls-whom.md. 0: none are remembered."""


class ModelSettings(Section):
    """The language model that investigates further and words the report: docs/model.md. Without
    `name` there is none."""

    name: str | None = None
    """The model's name at the provider."""
    api_key: SecretStr | None = None
    """Secret."""
    base_url: Url | None = None
    """For self-hosted servers and other providers. They get chat completions unless `api` says
    otherwise."""
    api: Literal["responses", "chat", "anthropic"] | None = None
    """Which API to speak. Unset: `responses`, or `chat` when `base_url` is set."""
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = (
        None
    )
    """How hard a reasoning model thinks, where the server takes that. Unset: as the server has
    it."""
    context_tokens: int | None = Field(default=None, ge=4000)
    """Size of the server's context, prompt and response together. Unset: as the server says. Set it
    for Ollama, which cuts a prompt that is too long without saying so."""
    timeout_s: float = Field(default=40, gt=0)
    """The longest silence of the server, after which a response counts as lost."""
    max_output_tokens: int = Field(default=4000, ge=100)
    """Limit of one response, including reasoning."""
    investigates: bool = True
    """Whether it may use read-only tools before it words the report. `false`: it only words the
    report."""
    queries: bool = True
    """Whether it may ask connectors in their own query languages. `false`: only what the other
    tools ask."""
    decides: Literal["never", "below_bar", "dissent_only"] = "below_bar"
    """What its verdict may do. `below_bar`: lead the answer where code is less sure than the bar,
    once code has verified its grounds. `dissent_only`: it is shown, and changes nothing. `never`:
    it is not shown either."""
    record: Path | None = None
    """What this model achieved, as `faultline eval CASES --model --json` prints it: it sets the bar
    and how sure an answer is. Unset: cautious numbers (docs/model.md)."""
    investigate_s: float = Field(default=150, gt=0)
    """The longest time for all its responses and tool calls together."""
    max_rounds: int = Field(default=12, ge=1, le=100)
    """Responses in one investigation, including the report."""
    max_tokens: int = Field(default=300_000, ge=1000)
    """Tokens in one investigation, including those sent again in each round."""
    price_per_million_input: float | None = Field(default=None, ge=0)
    """US dollars for a million tokens sent. Unset: no cost is calculated."""
    price_per_million_cached: float | None = Field(default=None, ge=0)
    """The same for tokens that the server has cached. Unset: as `price_per_million_input`."""
    price_per_million_cache_write: float | None = Field(default=None, ge=0)
    """The same for tokens that the server puts into its cache, where it charges for that. Unset: as
    `price_per_million_input`."""
    price_per_million_output: float | None = Field(default=None, ge=0)
    """The same for tokens received. Unset: as `price_per_million_input`."""
    max_cost_usd: float = Field(default=1.0, gt=0)
    """US dollars that one investigation may cost, if prices are set."""
    max_tokens_per_day: int | None = Field(default=None, ge=1000)
    """Tokens of all investigations and questions of a day (UTC), over all workers. Unset: no
    limit."""
    max_cost_usd_per_day: float | None = Field(default=None, gt=0)
    """The same in US dollars. Needs prices."""
    max_tokens_per_channel_day: int | None = Field(default=None, ge=1000)
    """The same for each channel."""
    max_cost_usd_per_channel_day: float | None = Field(default=None, gt=0)
    """The same for each channel, in US dollars. Needs prices."""
    cloud: Literal["azure"] | None = None
    """`azure`: sign in with a token of Microsoft Entra instead of `api_key`."""
    azure_tenant_id: str | None = None
    """The directory's id, for `azure_client_secret`."""
    azure_client_id: str | None = None
    """The application's id, or that of a user-assigned managed identity."""
    azure_client_secret: SecretStr | None = None
    """Secret. The application's client secret. Without it the workload identity of the pod or the
    managed identity of the machine is used."""
    azure_audience: str = "https://ai.azure.com"
    """Whom the token is for. Older resources want `https://cognitiveservices.azure.com`."""
    azure_login_url: Url = "https://login.microsoftonline.com"
    """Microsoft Entra. Change it for other clouds."""
    azure_identity_url: Url = "http://169.254.169.254"
    """Where a machine gets its managed identity's token."""

    @model_validator(mode="after")
    def _fits_together(self) -> ModelSettings:
        priced = self.price_per_million_input is not None
        if (self.max_cost_usd_per_day or self.max_cost_usd_per_channel_day) and not priced:
            raise ValueError("a limit in US dollars for a day needs price_per_million_input")
        if self.azure_client_secret and not (self.azure_tenant_id and self.azure_client_id):
            raise ValueError("azure_client_secret needs azure_tenant_id and azure_client_id")
        if self.cloud == "azure" and (self.base_url is None or self.api == "anthropic"):
            raise ValueError('cloud = "azure" needs base_url (.../openai/v1) and OpenAI\'s APIs')
        return self


class RunbookSettings(Section):
    """The operator's guidance as Markdown files: docs/runbooks.md."""

    directories: Names = ()
    """Directories whose `.md` files are runbooks, with all below them. Unset: there are none."""
    link_hosts: Names = ()
    """Hosts that runbooks may link to, besides those of addresses in these settings."""


def _usable(value: str) -> str:
    try:
        compiled(value)
    except BadPattern as error:
        raise ValueError(f"cannot be used as a pattern (RE2): {error}") from None
    return value


class RedactionRule(Section):
    """One rule: what a pattern finds is hidden, kept or blocks its text."""

    pattern: Annotated[str, AfterValidator(_usable)]
    """A regular expression of RE2 (no look-around, no back-references). With a group, the first
    group is what the rule is about. `(?i)` in front: whatever the case."""
    action: Literal["redact", "keep", "block"] = "redact"
    """`redact`: what it finds becomes `[CUSTOM]`. `keep`: what it finds is no secret, whatever it
    looks like. `block`: a text in which it finds anything is not kept, sent or logged at all."""


class RedactionSettings(Section):
    """Secrets in what is collected, kept, sent and logged: docs/security.md."""

    rules: Annotated[tuple[RedactionRule, ...], Field(max_length=200)] = ()
    """Your own rules, beside the built-in ones. `block` wins over the others, and `keep` over
    `redact` and what is built in."""

    @property
    def as_rules(self) -> tuple[Rule, ...]:
        """The rules as `faultline.analysis.secrets` takes them."""
        return tuple(Rule(rule.pattern, rule.action) for rule in self.rules)


class TrainingSettings(Section):
    """Which labels of an alert name its training job: docs/training-jobs.md. The first that is set
    wins."""

    job_labels: Names = ("job_name", "training_job", "slurm_job_name")
    """The job's name, as in `jobs`."""
    run_labels: Names = ("run", "run_id", "run_name", "wandb_run")
    """The run, for `{run}` in locations."""
    slurm_labels: Names = ("slurm_job_id", "slurm_jobid", "hpc_job")
    """Slurm's number of the job, for `{slurm_job_id}`."""
    pod_labels: Names = ("exported_pod", "pod", "pod_name", "kube_pod_name")
    """The pod, for `{pod}`."""
    node_labels: Names = ("Hostname", "hostname", "node", "exported_node", "host", "instance")
    """The machine, for `{node}`. A port is cut off."""
    rank_labels: Names = ("rank", "global_rank")
    """The rank the alert is about."""
    gpu_labels: Names = ("gpu", "gpu_id", "gpu_index")
    """The GPU's number on its machine."""


class JobSettings(JobLocations):
    """One training job, by the name that alerts use: docs/training-jobs.md. For captures:
    docs/capture.md."""

    hosts: Names = ()
    """Its hosts in the order of their ranks, as `name`, or `name:port` where the Dynolog daemon
    does not listen on 1778."""
    ranks_per_host: int | None = Field(default=None, ge=1)
    """Processes on each host. A capture reports where fewer recorded. Unset: any number."""
    ranks: int | None = Field(default=None, ge=1)
    """Ranks of the whole job. Missing ones are reported. Unset: `hosts` times `ranks_per_host`."""
    allow_capture: bool = False
    """Whether its machines may be asked to record at all."""
    capture_on_alert: bool = False
    """Whether an alert about the job may start a capture, if no trace of the incident was found."""
    slurm_job_id: int = Field(default=0, ge=0)
    """Slurm's number of the job, by which a daemon finds its processes. 0 outside Slurm."""
    debug_server: Url | None = None
    """Rank 0's page of `torch.distributed.debug`, for example `http://node-a:25999`. Asked before
    Dynolog."""
    debug_hosts: Names = ()
    """Hosts whose debug servers may be contacted, besides `hosts` and that of `debug_server`."""
    debug_ports: str = "32768-60999"
    """Ports of the ranks' debug servers, as `first-last` or one number. The default is where Linux
    puts a server that asks for any port."""
    job_directory: str | None = None
    """A directory that exists on every host of the job, into which its processes write their
    traces."""
    trace_location: Location | None = None
    """The same storage as this machine sees it: a directory or `s3://bucket/prefix`. Unset:
    `job_directory`."""
    cooldown_minutes: float = Field(default=30, ge=0)
    """Least time between the starts of two captures."""
    captures_per_day: int = Field(default=6, ge=0)
    """Most captures in 24 hours."""
    longest_seconds: float = Field(default=10, gt=0, le=600)
    """Longest recording that may be asked for."""
    most_iterations: int = Field(default=10, ge=1, le=1000)
    """Most iterations that may be asked for."""
    wait_seconds: float = Field(default=300, gt=0, le=3600)
    """How long to wait for the files after the recording should have ended."""

    @field_validator("debug_ports")
    @classmethod
    def _is_a_range(cls, value: str) -> str:
        if not _ports(value):
            raise ValueError("must be a port, or first-last, within 1-65535")
        return value

    @property
    def ports_of_debug_servers(self) -> range:
        """`debug_ports`, as numbers."""
        return _ports(self.debug_ports)

    @field_validator("job_directory")
    @classmethod
    def _is_absolute(cls, value: str | None) -> str | None:
        if value is not None and (not value.startswith("/") or not value.isprintable()):
            raise ValueError("must be an absolute path")
        return value


def _ports(text: str) -> range:
    """The ports, or an empty range for what names none."""
    # Otherwise `\d` matches digits of every script.
    match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", text, re.ASCII)
    if match is None:
        return range(0)
    first, last = int(match[1]), int(match[2] or match[1])
    return range(first, last + 1) if 1 <= first <= last <= 65535 else range(0)
