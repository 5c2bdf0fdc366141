"""`faultline verify-deploy`: go, hold or roll back, from a terminal or a pipeline."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from pydantic import BaseModel, ConfigDict, ValidationError
from rich.console import Console
from rich.text import Text

from faultline.analysis.deploys.verdict import Decision, DeployVerdict
from faultline.analysis.errors import ConnectorError, EvidenceError, SettingsError
from faultline.bot.answer.deploy_verdict import LABELS, as_json, lines, to_markdown
from faultline.bot.cli.ask_command import AskOptions, settings_for
from faultline.bot.intake.incident_requests import length_of, since_of
from faultline.bot.intake.payload_fields import single_line
from faultline.bot.intake.service_names import catalogued
from faultline.bot.investigation.checking_deploys import check_deploy
from faultline.bot.policy.values import DeployToCheck, due_at
from faultline.connectors.registry import build_connectors
from faultline.connectors.shared.contract.base import Connector
from faultline.connectors.shared.vendor_text import short

# `faultline verify-deploy --bot URL`: the bot asks its own sources, this terminal waits for it.

CHECKS = "/api/deploy-checks"
TOKEN = "FAULTLINE_TOKEN"  # noqa: S105  the variable's name
EVERY_S = 5.0
TIMEOUT_S = 20.0
LATE_S = 900.0
"""How long after the last look's time a verdict is waited for: workers may be busy, or away."""
TRIES = 5


class _Answer(BaseModel):
    """What is read of the bot's answer."""

    model_config = ConfigDict(extra="ignore")

    id: str
    status: str
    verdict: DeployVerdict | None = None


def verify_over_api(
    deploy: DeployToCheck,
    url: str,
    environ: Mapping[str, str],
    tell: Callable[[str], None],
    *,
    every_s: float = EVERY_S,
) -> DeployVerdict:
    """The bot's verdict, once it is final. Raises ConnectorError where there is none, and
    SettingsError where the bot refuses the request."""
    # One key for the whole run, so that no retry starts a second check.
    headers = {"idempotency-key": uuid.uuid4().hex}
    if environ.get(TOKEN):
        headers["authorization"] = f"Bearer {environ[TOKEN]}"
    with httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=TIMEOUT_S) as client:
        answer = _request(client, "POST", CHECKS, _body(deploy))
        until = time.monotonic() + deploy.wait.total_seconds() + LATE_S
        last_look = 0
        while answer.status == "watching":
            if time.monotonic() > until:
                raise ConnectorError(
                    "faultline", CHECKS, "no verdict in time: is a worker running?"
                )
            time.sleep(every_s)
            answer = _request(client, "GET", f"{CHECKS}/{answer.id}")
            verdict = answer.verdict
            if verdict is not None and verdict.look > last_look:
                last_look = verdict.look
                tell(f"look {verdict.look} of {verdict.looks}: {verdict.headline}")
    if answer.verdict is None:
        raise ConnectorError("faultline", CHECKS, "the check failed: see the worker's log")
    return answer.verdict


def _body(deploy: DeployToCheck) -> dict[str, Any]:
    return {
        "service": deploy.service,
        "since": deploy.deployed_at.isoformat(),
        "wait_minutes": deploy.wait.total_seconds() / 60,
        "warm_up_minutes": deploy.warm_up.total_seconds() / 60,
        "baseline_hours": deploy.baseline.total_seconds() / 3600,
        "canary": dict(deploy.parts),
        "places": dict(deploy.places),
    }


def _request(client: httpx.Client, method: str, path: str, body: Any = None) -> _Answer:
    """One answer. The same key makes it safe to send the request again."""
    problem = ""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(2.0**attempt)
        try:
            response = client.request(method, path, json=body)
        except httpx.HTTPError as error:
            problem = f"{type(error).__name__}: is the address right?"
            continue
        # These may pass; any other status stays.
        if response.status_code in (429, 500, 502, 503, 504):
            problem = f"answered {response.status_code}"
            continue
        return _read(response)
    raise ConnectorError("faultline", path, problem)


def _read(response: httpx.Response) -> _Answer:
    if response.status_code in (401, 403):
        raise SettingsError(
            "--bot", f"the bot refuses the token in {TOKEN}: it needs a responder's"
        )
    if response.status_code == 422:
        raise SettingsError("--bot", f"the bot refuses this: {short(response.text, 200)}")
    try:
        response.raise_for_status()
        return _Answer.model_validate_json(response.content)
    except (httpx.HTTPError, ValidationError):
        phrase = f"answered {response.status_code}, which is no check of a deploy"
        raise ConnectorError("faultline", CHECKS, phrase) from None


EXIT_CODES = {Decision.GO: 0, Decision.HOLD: 3, Decision.ROLL_BACK: 4}
"""1 and 2 are for what fails, as of every command: a crash must not look like a roll-back."""
STYLES = {Decision.GO: "bold green", Decision.HOLD: "bold yellow", Decision.ROLL_BACK: "bold red"}
NO_SOURCE = (
    "no source of metrics is configured: give one, such as --prometheus http://localhost:9090, or "
    "write a settings file (docs/configuration.md)"
)


@dataclass(frozen=True)
class VerifyOptions:
    """The options of the command."""

    sources: AskOptions
    since: str = "now"
    wait: str = "15m"
    warm_up: str = "2m"
    baseline: str = "6h"
    canary: Sequence[str] = ()
    place: Sequence[str] = ()
    as_json: bool = False
    markdown: Path | None = None
    bot: str | None = None
    """Address of a bot that asks in place of this process."""


def verify_deploy(service: str, options: VerifyOptions) -> int:
    """Watch, print the verdict, and return the exit code."""
    console = Console(stderr=True, highlight=False)
    now = datetime.now(UTC)
    named = single_line(service)
    if not named:
        raise SettingsError("SERVICE", "is empty")
    deploy = DeployToCheck(
        service=named,
        deployed_at=since_of(options.since, now).astimezone(UTC),
        wait=length_of(options.wait, "--wait"),
        warm_up=length_of(options.warm_up, "--warm-up"),
        baseline=length_of(options.baseline, "--baseline"),
        parts=_pairs(options.canary, "--canary"),
        places=_pairs(options.place, "--place"),
    ).checked(now)
    if options.bot is not None:
        verdict = verify_over_api(deploy, options.bot, os.environ, partial(_say, console))
    else:
        verdict = _from_here(deploy, options, console)
    _write(verdict, options)
    return EXIT_CODES[verdict.decision]


def _from_here(deploy: DeployToCheck, options: VerifyOptions, console: Console) -> DeployVerdict:
    settings = settings_for(options.sources, os.environ)
    # The catalogue may know the service by another name.
    named = catalogued(settings, deploy.service) or deploy.service
    connectors = build_connectors(settings)
    if not any("metrics" in connector.kinds for connector in connectors):
        raise SettingsError("verify-deploy", NO_SOURCE)
    return watch(deploy.model_copy(update={"service": named}), connectors, console)


def watch(
    deploy: DeployToCheck, connectors: Sequence[Connector], console: Console
) -> DeployVerdict:
    """All looks until the time is over or the deploy is to be rolled back."""
    verdict: DeployVerdict | None = None
    for look in deploy.looks(datetime.now(UTC)):
        due = due_at(look)
        left = (due - datetime.now(UTC)).total_seconds()
        if left > 0:
            _say(console, f"look {look.number} of {look.of} at {due.astimezone():%H:%M:%S}")
            time.sleep(left)
        verdict = asyncio.run(check_deploy(deploy, look, connectors))
        if verdict.final:
            break
        _say(console, f"look {look.number} of {look.of}: {verdict.headline}")
    assert verdict is not None, "there is always a last look"
    return verdict


def _say(console: Console, line: str) -> None:
    at = datetime.now(UTC).astimezone()
    console.print(Text(f"{at:%H:%M:%S}  {line}", style="dim"))


def _write(verdict: DeployVerdict, options: VerifyOptions) -> None:
    if options.markdown is not None:
        try:
            options.markdown.write_text(to_markdown(verdict), encoding="utf-8")
        except OSError as error:
            problem = f"cannot be written ({error.strerror or type(error).__name__})"
            raise EvidenceError(str(options.markdown), problem) from error
    if options.as_json:
        sys.stdout.write(json.dumps(as_json(verdict), indent=1, ensure_ascii=False) + "\n")
        return
    console = Console(highlight=False)
    console.print(Text(LABELS[verdict.decision], style=STYLES[verdict.decision]))
    for line in lines(verdict):
        console.print(Text(line), soft_wrap=True)


def _pairs(assignments: Sequence[str], option: str) -> Mapping[str, str]:
    pairs = {}
    for canary in assignments:
        name, equals, value = canary.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise SettingsError(option, "is not of the form name=value, such as cluster=eu-1")
        pairs[single_line(name)] = single_line(value)
    return pairs
