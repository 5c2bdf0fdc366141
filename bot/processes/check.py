"""`faultline check`: can each configured part be reached, is it allowed to, and is it read-only?
One line each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from faultline.analysis.errors import FaultlineError
from faultline.bot.answer.targets.target_type import ReplyTargetType, configured_types
from faultline.bot.intake.alert_sources import alert_sources
from faultline.bot.investigation.runbooks.checking import runbook_checks
from faultline.bot.policy.reply_targets import declared_targets
from faultline.bot.runtime.threads import in_store, in_thread
from faultline.bot.settings import Settings
from faultline.bot.settings.environment import ProcessRole, beyond_need
from faultline.bot.store.databases import open_cases, open_store
from faultline.connectors.asking import bounded
from faultline.connectors.registry import GROUP, build_connectors, load_connector
from faultline.connectors.shared.contract.base import Check
from faultline.connectors.shared.contract.plugins import Plugin, installed


def run_checks(settings: Settings, role: ProcessRole | None = None) -> int:
    """Print one line per part and one that counts; 1 when something that is configured does not
    work, else 0. A part that works but cannot read everything is marked. With `role`, also whether
    that process holds secrets that it does not need."""
    checks = list(asyncio.run(all_checks(settings, vendors=role != "server")))
    if role is not None:
        checks.append(secrets_check(settings, role))
    console = Console(highlight=False, soft_wrap=True)
    width = max(len(check.name) for check in checks)
    for check in checks:
        # A vendor's error may hold line ends, and each part has one line.
        line = f"  {check.name:<{width}}  {' '.join(check.line.split())}"
        if not check.ok:
            mark = Text("FAIL", style="bold red")
        else:
            mark = Text("PART", style="yellow") if check.unread else Text("ok  ", style="green")
        console.print(Text.assemble(mark, line))
    console.print(_summary(checks))
    return 0 if all(check.ok for check in checks) else 1


def _summary(checks: Sequence[Check]) -> str:
    """The last line: what does not work, and what cannot be read of the rest."""
    # A part may have several checks, and is named once.
    failed = dict.fromkeys(check.name for check in checks if not check.ok)
    in_part = dict.fromkeys(check.name for check in checks if check.ok and check.unread)
    if not (failed or in_part):
        return "all parts work"
    phrases = []
    if failed:
        parts = dict.fromkeys(check.name for check in checks)
        phrases.append(f"{len(failed)} of {len(parts)} parts FAIL: {', '.join(failed)}")
    if in_part:
        phrases.append(f"some evidence cannot be read from {', '.join(in_part)}")
    return "; ".join(phrases)


def secrets_check(settings: Settings, role: ProcessRole) -> Check:
    """Whether the process holds no secret beyond its need."""
    more = beyond_need(role, settings)
    if not more:
        return Check("secrets", True, f"the {role} holds only what it needs")
    return Check("secrets", False, f"the {role} does not need {', '.join(more)}: unset them there")


async def all_checks(settings: Settings, *, vendors: bool = True) -> Sequence[Check]:
    """Everything, side by side: the bot's own parts first, then connectors by name, then runbooks
    by file and line. Without `vendors`, neither connectors nor what asks them."""
    parts: list[tuple[str, Callable[[], Awaitable[Check]]]] = [
        ("store", lambda: _store(settings)),
        ("cases", lambda: _cases(settings)),
        ("inbound", lambda: _inbound(settings)),
        ("replies", lambda: _replies(settings)),
    ]
    if any(_hears_people(workspace) for workspace in settings.per_instance("slack")):
        parts.append(("people", lambda: _people(settings)))
    if settings.watch:
        parts.append(("watches", lambda: _watches(settings)))
    if settings.login.issuer is not None:
        parts.append(("login", lambda: _login(settings)))
    if not vendors:
        # Checking reply targets asks vendors too.
        parts = [part for part in parts if part[0] != "replies"]
        return await asyncio.gather(*(bounded(name, check) for name, check in parts))
    connectors = sorted(build_connectors(settings), key=lambda connector: connector.name)
    models = [bounded(name, check) for name, check in parts]
    # `_model` has its own deadline, which is longer.
    models.append(_model(settings))
    checks = await asyncio.gather(*models, *(bounded(c.name, c.check) for c in connectors))
    runbooks = await in_thread(runbook_checks, settings)
    return [*checks, *await in_thread(plugin_checks), *runbooks]


def plugin_checks() -> Sequence[Check]:
    """One line for each connector that another package brings, configured or not."""
    try:
        plugins = installed(GROUP)
    except FaultlineError as error:
        return [Check("plug-ins", False, str(error))]
    return [_plugin(plugin) for plugin in plugins.values()]


def _plugin(plugin: Plugin) -> Check:
    name = f"plug-in {plugin.name}"
    if plugin.name in Settings.model_fields:
        return Check(
            name, False, f"{plugin.package}: Faultline already has a section [{plugin.name}]"
        )
    try:
        declared = load_connector(plugin)
    except FaultlineError as error:
        return Check(name, False, str(error))
    return Check(
        name,
        True,
        f"{plugin.package} brings {', '.join(declared.kinds)}: [{plugin.name}] in the settings",
    )


async def _store(settings: Settings) -> Check:
    def select() -> str:
        store = open_store(settings)
        with store.engine.connect() as connection:
            connection.execute(text("SELECT 1"))
        return store.engine.dialect.name

    try:
        return Check("store", True, f"{await in_store(select)}, tables up to date")
    except SQLAlchemyError as error:
        return Check("store", False, f"the database does not answer ({type(error).__name__})")


async def _cases(settings: Settings) -> Check:
    cases = open_cases(settings)
    await in_thread(cases.check)
    return Check("cases", True, f"{cases.location} can be listed")


async def _inbound(settings: Settings) -> Check:
    configured: list[str] = []
    for source in alert_sources():
        configured += source.configured(settings)
    if not configured:
        return Check(
            "inbound",
            False,
            "no alert source configured: set FAULTLINE_PAGERDUTY__WEBHOOK_SECRETS or another "
            "source's secret",
        )
    if settings.changes.tokens:
        configured.append("reported changes")
    return Check("inbound", True, ", ".join(configured))


async def _replies(settings: Settings) -> Check:
    types = configured_types(settings)
    if all(target.on_click for target in types):
        declared = [
            declared_target
            for declared_target in declared_targets(settings)
            if not declared_target.on_click
        ]
        variables = " or ".join(declaration.switched_on_by for declaration in declared)
        return Check("replies", False, f"no reply target configured: set {variables}")
    checks = await asyncio.gather(*(_reply_target(target, settings) for target in types))
    lines = [", ".join(target.target_label for target in types)]
    lines += [check.line for check in checks if check.line]
    failed = [check.line for check in checks if not check.ok]
    # Name only what fails: what works would hide it.
    return Check("replies", not failed, "; ".join(failed or lines))


async def _reply_target(target: ReplyTargetType[Any], settings: Settings) -> Check:
    try:
        note = await target.check(settings)
    except FaultlineError as error:
        problem = f"{target.target_label}: {error}" if target.instance else str(error)
        return Check(target.target_name, False, problem)
    return Check(target.target_name, True, f"{target.target_label}: {note}" if note else "")


def _hears_people(workspace: Settings) -> bool:
    """Whether people of this workspace can ask anything of the bot."""
    slack = workspace.slack
    hears = bool(slack.signing_secrets) or slack.app_token is not None
    return hears and slack.bot_token is not None


async def _people(settings: Settings) -> Check:
    """Whether it can be known who acts in Slack."""
    from faultline.bot.answer.targets.slack.token_check import missing_people_scopes

    lacking: list[str] = []
    for workspace in settings.per_instance("slack"):
        if _hears_people(workspace):
            name = f"{workspace.slack.instance.name}: ".removeprefix(": ")
            lacking += [f"{name}{scope}" for scope in await missing_people_scopes(workspace.slack)]
    if lacking:
        phrase = f"the Slack app lacks {'; '.join(lacking)}: reinstall it with the current manifest"
        return Check("people", True, phrase, tuple(f"the scope {scope}" for scope in lacking))
    return Check("people", True, "members, guests and user groups of Slack can be distinguished")


async def _watches(settings: Settings) -> Check:
    """What is looked at by the clock, and how often."""
    watches = [
        f"{watch.service or name} every {watch.every_minutes:g} min"
        for name, watch in settings.watch.items()
    ]
    line = f"{len(watches)} watched: {', '.join(watches)}"
    if not any("metrics" in connector.kinds for connector in build_connectors(settings)):
        return Check("watches", False, f"{line}; no source of metrics is configured for them")
    return Check("watches", True, line)


async def _login(settings: Settings) -> Check:
    # Late, like the model's client below: few settings name either.
    from faultline.bot.web.oidc.provider import Provider

    return Check("login", True, await Provider(settings.login).check())


async def _model(settings: Settings) -> Check:
    if settings.model.name is None:
        return Check("model", True, "none: the built-in writer words the reports")
    from faultline.bot.investigation.model.model_check import PROBE_S, probe

    async def ask() -> Check:
        return Check("model", True, (await probe(settings.model)).line)

    return await bounded("model", ask, 2 * PROBE_S)
