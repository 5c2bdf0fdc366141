"""`faultline verify-deploy --bot URL`: the bot asks its own sources, this terminal waits for it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import httpx
from pydantic import BaseModel, ConfigDict, ValidationError

from faultline.analysis.deploys.verdict import DeployVerdict
from faultline.analysis.errors import ConnectorError, SettingsError
from faultline.bot.policy.values import DeployToCheck
from faultline.connectors.shared.vendor_text import short

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
