"""What everything stands on: the database takes writes, its clock agrees, the case store works, the
disk has room; and settings that each are allowed and together cannot do what somebody expects."""

from __future__ import annotations

import ipaddress
import os
import shutil
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex

from obstore.exceptions import BaseError
from sqlalchemy import text
from sqlalchemy.engine import make_url

from faultline.analysis.errors import FaultlineError
from faultline.analysis.wording.phrases import counted
from faultline.bot.operating.inspection import CheckResult, Inspection, lasting
from faultline.bot.policy.reply_targets import configured_targets, declared_targets
from faultline.bot.settings import Settings
from faultline.bot.settings.processes import names_this_machine
from faultline.bot.store.admitting import JOIN_FOR
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.databases import engine_url, open_cases, store_url

LOCK_WAIT_S = 2.0
"""The bot holds SQLite's lock for milliseconds."""
BLOCKED_S = 10.0
SKEW = timedelta(seconds=2)
"""What `faultline.bot.answer.targets.posting.LEASE` allows for clocks of different machines."""
LEAST_FREE_BYTES = 500 * 2**20
LEAST_FREE_SHARE = 0.05
LEAST_FILES_SHARE = 0.02
BLOCKED = (
    "SELECT count(*) AS waiting, max(extract(epoch FROM now() - query_start)) AS longest FROM "
    "pg_stat_activity"
    " WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0"
    " AND wait_event_type = 'Lock' AND wait_event IS DISTINCT FROM 'advisory'"
)
"""https://www.postgresql.org/docs/current/monitoring-stats.html#MONITORING-PG-STAT-ACTIVITY-VIEW"""


def place_checks(inspection: Inspection) -> Iterator[CheckResult]:
    """All of them."""
    yield CheckResult(
        "ok", "database", f"{inspection.store.dialect.name}, tables version {inspection.version}"
    )
    yield from (_locked(inspection.settings) if inspection.embedded else _server(inspection))
    yield _cases(inspection.settings)
    yield from _room(inspection.settings)


def _locked(settings: Settings) -> Iterator[CheckResult]:
    for url in (store_url(settings), engine_url(settings)):
        file = Path(make_url(url).database or "")
        if not file.exists():
            continue
        problem = _no_write(file)
        if problem:
            todo = (
                f"`fuser {file}` names the processes; end the one that is none of the bot's; "
                f"steps are tried again"
            )
            yield CheckResult("wrong", "database", f"{file} takes no writes: {problem}", todo)


def _no_write(file: Path) -> str:
    """Why the database cannot be written to; begins a write and takes it back."""
    try:
        connection = sqlite3.connect(file, timeout=LOCK_WAIT_S, isolation_level=None)
        try:
            # IMMEDIATE takes the write lock, and nothing is written under it.
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        finally:
            connection.close()
    except sqlite3.Error as error:
        locked = "locked" in str(error)
        return (
            f"another process holds its lock for more than {LOCK_WAIT_S:g} s"
            if locked
            else str(error)
        )
    return ""


def _server(inspection: Inspection) -> Iterator[CheckResult]:
    with inspection.store.connect() as connection:
        before = datetime.now(UTC)
        theirs = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
        # The server read its clock about halfway through the request.
        ours = before + (datetime.now(UTC) - before) / 2
        waiting, longest = connection.execute(text(BLOCKED)).one()
        full = connection.execute(
            text("SELECT count(*), current_setting('max_connections')::int FROM pg_stat_activity")
        ).one()
        read_only = (
            connection.execute(text("SELECT current_setting('transaction_read_only')")).scalar_one()
            == "on"
        )
    if read_only:
        yield CheckResult(
            "wrong",
            "database",
            "it takes no writes: it is a replica, or set to read only",
            "store.database must name the primary",
        )
    skew = abs(theirs - ours)
    phrase = f"the clocks of the database and of this machine differ by {lasting(skew)}"
    todo = "let both follow a time server (chrony); leases of posts and of workers trust the clocks"
    yield CheckResult(
        "wrong" if skew > SKEW else "ok", "clock", phrase, todo if skew > SKEW else ""
    )
    if waiting and float(longest or 0) > BLOCKED_S:
        phrase = (
            f"{counted(int(waiting), 'query')} wait for a lock, the longest for "
            f"{float(longest):.0f} s"
        )
        todo = "`SELECT pg_blocking_pids(pid), * FROM pg_stat_activity` names who holds it"
        yield CheckResult("wrong", "database", phrase.replace("querys", "queries"), todo)
    if full[0] > 0.9 * full[1]:
        phrase = f"{full[0]} of {full[1]} connections are in use"
        yield CheckResult(
            "wrong", "database", phrase, "raise max_connections: each worker takes up to 20"
        )


def _cases(settings: Settings) -> CheckResult:
    try:
        cases = open_cases(settings)
        _probe(cases)
    except (FaultlineError, BaseError, OSError, ValueError) as error:
        name = " ".join(str(error).split())[:300] or type(error).__name__
        todo = "the bot needs to read, write, list and delete there; investigations fail without it"
        return CheckResult("wrong", "cases", f"the case store does not work: {name}", todo)
    return CheckResult("ok", "cases", f"{cases.location}: written, read and deleted a probe")


def _probe(cases: CaseStore) -> None:
    """Write, read and remove one small object. Raises FaultlineError."""
    name, content = f"doctor-{token_hex(6)}", token_hex(8).encode()
    try:
        cases.put(name, "probe", content)
        if cases.get(name, "probe") != content:
            raise FaultlineError(f"{cases.location} returned something else than was written")
    finally:
        cases.delete(name, "")


def _room(settings: Settings) -> Iterator[CheckResult]:
    for place in dict.fromkeys(_directories(settings)):
        try:
            disk, files = shutil.disk_usage(place), os.statvfs(place)
        except OSError as error:
            yield CheckResult(
                "wrong", "disk", f"{place}: {error.strerror or error}", "is the volume mounted?"
            )
            continue
        little = disk.free < LEAST_FREE_BYTES or disk.free < LEAST_FREE_SHARE * disk.total
        # File systems without a fixed number of files report 0.
        few = files.f_files > 0 and files.f_favail < LEAST_FILES_SHARE * files.f_files
        phrase = f"{place}: {disk.free / 2**30:.1f} GiB free of {disk.total / 2**30:.1f}"
        phrase += f", and few files left ({files.f_favail})" if few else ""
        todo = "make room, or shorten [retention]; a full disk stops everything"
        yield CheckResult(
            "wrong" if little or few else "ok", "disk", phrase, todo if little or few else ""
        )


def _directories(settings: Settings) -> Iterator[Path]:
    cases = settings.store.cases
    if settings.store.database is None or cases is None:
        yield settings.store.directory.absolute()
    if cases is not None and not cases.startswith("s3://"):
        yield Path(cases).absolute()


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
