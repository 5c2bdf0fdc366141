"""Settings that each are allowed and together cannot do what somebody expects of them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from datetime import timedelta

from faultline.bot.operating.check_results import CheckResult
from faultline.bot.policy.reply_targets import configured_targets, declared_targets
from faultline.bot.settings import Settings
from faultline.bot.settings.processes import names_this_machine
from faultline.bot.store.admitting import JOIN_FOR

WIDEST_IPV4 = 20
"""Of a network of proxies. Load balancers' own subnets are /28 to /20."""
WIDEST_IPV6 = 64


def settings_checks(settings: Settings) -> Iterator[CheckResult]:
    """What is wrong, or worth knowing; one "ok" when there is nothing."""
    doors = [*_in_and_out(settings), *_doors(settings), *_proxies(settings), *_retention(settings)]
    yield from doors or [CheckResult("ok", "settings", "nothing that contradicts itself")]


def _in_and_out(settings: Settings) -> Iterator[CheckResult]:
    configured = configured_targets(settings)
    # Targets such as tickets act on a click, so they alone post no answer.
    if all(declaration.on_click for declaration in configured):
        declared = [
            declared_target
            for declared_target in declared_targets(settings)
            if not declared_target.on_click
        ]
        variables = " or ".join(declaration.switched_on_by for declaration in declared)
        phrase = "answers are posted nowhere: no reply target is configured"
        yield CheckResult("note", "settings", phrase, f"set {variables}")
    for target in declared_targets(settings):
        for problem in target.problems(settings):
            yield CheckResult(problem.state, "settings", problem.problem, problem.todo)
    if settings.recorded.case is not None and configured:
        phrase = "every alert is answered from one recorded case (recorded.case)"
        todo = "that is for trying things out: unset it where real alerts come in"
        yield CheckResult("wrong", "settings", phrase, todo)


def _doors(settings: Settings) -> Iterator[CheckResult]:
    server, login = settings.server, settings.login
    here = names_this_machine(server.public_url)
    if server.host not in ("127.0.0.1", "::1", "localhost") and here:
        phrase = (
            f"the bot listens on {server.host}, and links in answers lead to {server.public_url}"
        )
        yield CheckResult(
            "wrong",
            "settings",
            phrase,
            "set server.public_url to the address that others reach it by",
        )
    if not here and server.access_token is None and login.issuer is None:
        phrase = (
            "nobody can open the pages: server.public_url is not this machine, and there is no "
            "login"
        )
        yield CheckResult(
            "wrong", "settings", phrase, "set FAULTLINE_SERVER__ACCESS_TOKEN, or login.issuer"
        )
    if login.issuer is not None and not server.public_url.startswith("https://") and not here:
        phrase = "logins over plain http: cookies can be read on the way"
        yield CheckResult("wrong", "settings", phrase, "set server.public_url to its https address")


def _proxies(settings: Settings) -> Iterator[CheckResult]:
    """Whoever is inside a trusted network can claim any address, for throttles and the audit."""
    for named in settings.server.trusted_proxies:
        network = ipaddress.ip_network(named)
        widest = WIDEST_IPV4 if network.version == 4 else WIDEST_IPV6
        if network.prefixlen < widest:
            phrase = (
                f"server.trusted_proxies holds {network}, a wide network: every client in it can "
                f"claim any address"
            )
            todo = f"name the proxies' own addresses or subnets, of /{widest} or smaller"
            yield CheckResult("note", "settings", phrase, todo)


def _retention(settings: Settings) -> Iterator[CheckResult]:
    retention, investigation = settings.retention, settings.investigation
    # 0 days keeps them forever.
    if 0 < retention.investigations_days < investigation.memory_days:
        phrase = (
            f"investigations are deleted after {retention.investigations_days:g} "
            "days, and memory is "
            f"to reach back "
            f"{investigation.memory_days:g}"
        )
        yield CheckResult(
            "note",
            "settings",
            phrase,
            "raise retention.investigations_days or lower investigation.memory_days",
        )
    if retention.calls_days < investigation.learned_calls_days:
        phrase = (
            f"calls between services are deleted after {retention.calls_days:g} days, "
            "and are to be "
            f"known for {investigation.learned_calls_days:g}"
        )
        advice = "raise retention.calls_days or lower investigation.learned_calls_days"
        yield CheckResult("note", "settings", phrase, advice)
    if timedelta(0) < timedelta(days=retention.investigations_days) < JOIN_FOR:
        phrase = "investigations are deleted before their alerts stop joining them"
        yield CheckResult("wrong", "settings", phrase, "raise retention.investigations_days")
    if 0 < retention.investigations_days < retention.cases_days:
        phrase = "case folders are kept for longer than their investigations, and go with them"
        yield CheckResult("note", "settings", phrase, "lower retention.cases_days")
    if settings.login.isolation == "teams" and not any(
        team.groups for team in settings.teams.values()
    ):
        phrase = (
            "investigations are shown to their teams alone, and no team has groups: only "
            "admins see what belongs to one"
        )
        yield CheckResult(
            "wrong", "settings", phrase, "set teams.NAME.groups, or login.isolation to off"
        )
