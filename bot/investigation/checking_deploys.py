"""Ask the sources about one service around its deploy, and judge what they bring.

What is collected is a case folder, put together as that of every investigation.
"""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from faultline.analysis.case.folder import read_case
from faultline.analysis.deploys.question import DeployQuestion, Look
from faultline.analysis.deploys.verdict import DeployVerdict
from faultline.analysis.deploys.verifying import judge_deploy
from faultline.analysis.vocabulary import Alert, EvidenceKind, Scope, Window
from faultline.bot.investigation.collecting import assemble, collect_part
from faultline.bot.policy.values import DeployToCheck
from faultline.bot.runtime.threads import in_thread
from faultline.bot.store.case_store import CaseStore
from faultline.connectors.shared.contract.base import Connector
from faultline.connectors.shared.contract.instances import worth_asking

LOGS_BEFORE = timedelta(hours=2)
REQUESTED_KINDS: frozenset[EvidenceKind] = frozenset({"metrics", "logs"})
"""A source of anything else is not asked."""


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
        # Only metrics and logs are judged.
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
    telling = [
        connector for connector in connectors if REQUESTED_KINDS.intersection(connector.kinds)
    ]
    sources = worth_asking(telling, alert, scope)
    cases, name = CaseStore(directory), uuid.uuid4().hex
    await asyncio.gather(*(collect_part(source, alert, scope, cases, name) for source in sources))
    names = [source.name for source in sources]
    await in_thread(assemble, alert, scope, names, cases, name)
    return directory / name


def judge_case(folder: Path, deploy: DeployToCheck, look: Look) -> DeployVerdict:
    """Judge what was collected."""
    question = DeployQuestion(deploy.service, deploy.deployed_at, look, deploy.parts)
    return judge_deploy(read_case(folder), question)
