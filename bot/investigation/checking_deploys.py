"""Ask the sources about one service around its deploy, and judge what they bring.

What is collected is a case folder, put together as that of every investigation.
"""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from analysis.case.folder import read_case
from analysis.deploys.looks import SHORTEST, Look, looks_left, looks_of
from analysis.deploys.verdict import DeployVerdict
from analysis.deploys.verifying import DeployQuestion, judge_deploy
from analysis.errors import SettingsError
from analysis.vocabulary import Alert, EvidenceKind, Scope, Window
from bot.investigation.collecting import assemble, collect_part
from bot.runtime.threads import in_thread
from bot.store.case_store import CaseStore
from connectors.base import Connector
from connectors.instances import worth_asking

WAIT, WARM_UP, BASELINE = timedelta(minutes=15), timedelta(minutes=2), timedelta(hours=6)
LONGEST_WAIT, LONGEST_BASELINE = timedelta(hours=24), timedelta(days=7)
LOGS_BEFORE = timedelta(hours=2)
ASKED_FOR: frozenset[EvidenceKind] = frozenset({"metrics", "logs"})
"""A source of anything else is not asked."""
OLDEST = timedelta(days=3_660)
SHORT = timedelta(minutes=1)


@dataclass(frozen=True)
class DeployToCheck:
    """One deploy, and how it is looked at."""

    service: str
    deployed_at: datetime
    wait: timedelta = WAIT
    warm_up: timedelta = WARM_UP
    baseline: timedelta = BASELINE
    parts: Mapping[str, str] = field(default_factory=dict)
    """The parts that got the deploy, by kind."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Where it is, by label: only sources that cover it are asked."""

    def checked(self, now: datetime) -> DeployToCheck:
        """Itself. Raises SettingsError for what cannot be judged."""
        if self.deployed_at > now + SHORT:
            raise SettingsError("since", "lies in the future")
        if self.deployed_at < now - OLDEST:
            raise SettingsError("since", "lies more than ten years back")
        if not self.warm_up + SHORTEST <= self.wait <= LONGEST_WAIT:
            raise SettingsError(
                "wait", "must be at least 2 minutes longer than warm-up, and at most 24h"
            )
        if not 2 * self.wait <= self.baseline <= LONGEST_BASELINE:
            raise SettingsError("baseline", "must be at least twice as long as wait, at most 7d")
        return self

    def looks(self, now: datetime) -> tuple[Look, ...]:
        """The looks that are left at `now`, the first of which may be due."""
        return looks_left(looks_of(self.deployed_at, self.wait, self.warm_up), now)


def case_for(deploy: DeployToCheck, look: Look) -> tuple[Alert, Scope]:
    """What the connectors are asked: the service, around the deploy."""
    at = deploy.deployed_at
    alert = Alert(
        source="deploy",
        title=f"Deploy of {deploy.service}",
        started_at=at,
        service=deploy.service,
        labels=deploy.places,
    )
    scope = Scope(
        incident=Window(start=at, end=look.end),
        baseline=(Window(start=at - deploy.baseline, end=at),),
        baseline_logs=(Window(start=at - min(deploy.baseline, LOGS_BEFORE), end=at),),
        baseline_spans=(),
        services=(deploy.service,),
    )
    return alert, scope


async def check_deploy(
    deploy: DeployToCheck, look: Look, connectors: Sequence[Connector]
) -> DeployVerdict:
    """Ask, and judge the time that the look covers. What could not be asked is a gap in the
    verdict."""
    with tempfile.TemporaryDirectory(prefix="faultline-deploy-") as scratch:
        folder = await collect_case(deploy, look, connectors, Path(scratch))
        return await in_thread(judge_case, folder, deploy, look)


async def collect_case(
    deploy: DeployToCheck, look: Look, connectors: Sequence[Connector], directory: Path
) -> Path:
    """The case folder of one look, below `directory`."""
    alert, scope = case_for(deploy, look)
    telling = [one for one in connectors if ASKED_FOR.intersection(one.kinds)]
    asked = worth_asking(telling, alert, scope)
    cases, name = CaseStore(directory), uuid.uuid4().hex
    await asyncio.gather(*(collect_part(one, alert, scope, cases, name) for one in asked))
    names = [one.name for one in asked]
    await in_thread(assemble, alert, scope, names, cases, name)
    return directory / name


def judge_case(folder: Path, deploy: DeployToCheck, look: Look) -> DeployVerdict:
    """Judge what was collected."""
    question = DeployQuestion(deploy.service, deploy.deployed_at, look, deploy.parts)
    return judge_deploy(read_case(folder), question)
