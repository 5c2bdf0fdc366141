"""The real bot with everything around it: processes, database, disk, clocks, vendors on loopback
and their lines."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.turmoil.certificates import make_certificates
from benchmarks.turmoil.clocks import Clocks
from benchmarks.turmoil.cradle import Cradle
from benchmarks.turmoil.databases import Database, Postgres, SqliteFiles
from benchmarks.turmoil.disks import Disk
from benchmarks.turmoil.fleet import Fleet
from benchmarks.turmoil.lines import Line, Lines
from benchmarks.turmoil.links import DatabaseLink
from benchmarks.turmoil.networks import Network
from benchmarks.turmoil.senders import SECRET
from faultline.bot.store.connections import connect
from faultline.bot.store.store import Store
from faultline.loopback.pagerduty import LoopbackPagerDuty
from faultline.loopback.server import serve_in_thread
from faultline.loopback.slack import LoopbackSlack
from tests.connectors.local_http import LocalServer
from tests.connectors.stand_ins.github import REPOSITORY
from tests.scenarios.small_case import write_small_case

EngineName = Literal["sqlite", "postgresql"]
ENGINES: tuple[EngineName, ...] = ("sqlite", "postgresql")
HOSTS: Mapping[EngineName, Sequence[str]] = {
    "sqlite": ("web-1",),
    "postgresql": ("web-1", "web-2", "worker-1", "worker-2"),
}
"""Each with one process, and a network namespace where that is permitted."""
CHANNEL = "C0INCIDENTS"
SOURCES = ("prometheus", "loki", "github")
"""Connectors that are asked beside the recorded case, which gives each investigation something to
find; GitHub only about services that have a repository."""
VENDORS = ("slack", "pagerduty", *SOURCES)
STATE_MB = 512
STATE = "FAULTLINE_STORE__DIRECTORY"
STORMY = ("storm-front", "storm-middle", "storm-back")
SHOPS = 24
"""Services with a repository: `shop-0`, `shop-1` ..."""
QUIET = 24
"""Services of a separate team: `quiet-0` ..."""
CROWD = 60
"""Services of a team that has a storm: `crowd-0` ..."""


@dataclass
class World:
    """Everything of one run."""

    engine: EngineName
    directory: Path
    fleet: Fleet
    database: Database
    disk: Disk
    clocks: Clocks
    slack: LoopbackSlack
    pagerduty: LoopbackPagerDuty
    lines: Mapping[str, Line]
    store: Store
    network: Network
    links: Mapping[str, DatabaseLink]
    """The hosts' links to the database, where that is on the network."""
    late: Callable[[], int]
    """Requests that a vendor is still to apply."""

    @property
    def urls(self) -> list[str]:
        """Where webhooks are taken."""
        return [member.url for member in self.fleet.servers]

    def heal(self) -> None:
        """Everything is as it should be."""
        self.disk.free()
        self.network.carry_all()
        for link in self.links.values():
            link.pass_again()
        for line in self.lines.values():
            if line.sickness is not None:
                line.fall_sick(None)
        for name in self.fleet.members:
            if not self.clocks.why_not:
                self.clocks.move(name, 0)


@contextmanager
def running_world(
    engine: EngineName, directory: Path, seed: str, *, thrifty: bool = False, **environ: str
) -> Iterator[World]:
    """Start everything; stop all of it at the end. `thrifty` spares the bot's processes their
    imports, and lets workers look for work each second."""
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        slack, pagerduty = LoopbackSlack(channels={CHANNEL: "incidents"}), LoopbackPagerDuty()
        network = Network(HOSTS[engine])
        stack.callback(network.close)
        certificates = make_certificates(directory / "certificates", network.address)
        lines = Lines(certificates, seed, network.address)
        stack.callback(lines.close)
        named: dict[str, Line] = {}
        for name, app in (("slack", slack.app), ("pagerduty", pagerduty.app)):
            url, stop = serve_in_thread(app)
            stack.callback(stop)
            named[name] = lines.line(name, url)
        tables: dict[str, Any] = {}
        for name in SOURCES:
            server = stack.enter_context(LocalServer())
            stand_in = importlib.import_module(f"tests.connectors.stand_ins.{name}")
            stand_in.serve(server)
            named[name] = lines.line(name, server.url)
            tables |= {
                k: v for k, v in stand_in.settings(named[name].url).items() if k != "services"
            }
        disk = Disk(directory / "state", STATE_MB)
        stack.callback(disk.unmount)
        database: Database = SqliteFiles(disk.directory) if engine == "sqlite" else Postgres()
        stack.callback(database.close)
        clocks = Clocks(directory / "clocks")
        authority = str(lines.certificates.authority)
        trust = {"SSL_CERT_FILE": authority, "REQUESTS_CA_BUNDLE": authority}
        settings = {**_settings(directory, named, tables), **trust, **environ}
        links: dict[str, DatabaseLink] = {}
        if database.setting:
            links = {host: DatabaseLink(host, database.url, lines) for host in HOSTS[engine]}
        for link in links.values():
            stack.callback(link.close)
        cradle = None
        if thrifty:
            cradle = Cradle({**trust, **clocks.preload})
            stack.callback(cradle.close)
            settings["FAULTLINE_WORKER__POLLING_INTERVAL_S"] = "1"
        fleet = _fleet(engine, directory, settings, clocks, lines, cradle, network, links)
        stack.callback(fleet.stop)
        fleet.start()
        connected = connect(database.url)
        stack.callback(connected.dispose)
        yield World(
            engine,
            directory,
            fleet,
            database,
            disk,
            clocks,
            slack,
            pagerduty,
            named,
            Store(connected),
            network,
            links,
            lambda: lines.late,
        )


def _fleet(
    engine: EngineName,
    directory: Path,
    settings: Mapping[str, str],
    clocks: Clocks,
    lines: Lines,
    cradle: Cradle | None,
    network: Network,
    links: Mapping[str, DatabaseLink],
) -> Fleet:
    """One process on each host. Alone on its host, a web process has its own worker."""
    logs = directory / "logs"
    logs.mkdir(exist_ok=True)
    fleet = Fleet(logs, cradle)
    hosts = HOSTS[engine]
    for host in hosts:
        environ = {**settings, **clocks.environ(host)}
        environ["FAULTLINE_SPOOL__DIRECTORY"] = f"{settings[STATE]}/spool-{host}"
        if host in links:
            environ["FAULTLINE_STORE__DATABASE"] = links[host].url
        place = (network.address_of(host), network.namespace_of(host))
        if host.startswith("worker"):
            fleet.add(host, ["worker"], environ, None, *place)
        else:
            alone = [] if len(hosts) == 1 else ["--no-worker"]
            fleet.add(host, ["serve", *alone], environ, lines.unused_port(), *place)
    return fleet


def _settings(
    directory: Path, lines: Mapping[str, Line], tables: Mapping[str, Any]
) -> dict[str, str]:
    case = write_small_case(_emptied(directory / "case"))
    config = directory / "faultline.toml"
    config.write_text(_catalogue(tables), encoding="utf-8")
    return {
        "FAULTLINE_CONFIG": str(config),
        "FAULTLINE_PAGERDUTY__WEBHOOK_SECRETS": SECRET,
        "FAULTLINE_PAGERDUTY__API_TOKEN": "pagerduty-token",
        "FAULTLINE_PAGERDUTY__FROM_EMAIL": "faultline@example.com",
        "FAULTLINE_PAGERDUTY__API_URL": lines["pagerduty"].url,
        "FAULTLINE_ALERTMANAGER__WEBHOOK_TOKENS": SECRET,
        "FAULTLINE_DATADOG__WEBHOOK_TOKENS": SECRET,
        "FAULTLINE_SENTRY__WEBHOOK_SECRETS": SECRET,
        "FAULTLINE_SLACK__BOT_TOKEN": "xoxb-test",
        "FAULTLINE_SLACK__SIGNING_SECRETS": "slack-secret",
        "FAULTLINE_SLACK__CHANNEL": CHANNEL,
        "FAULTLINE_SLACK__API_URL": f"{lines['slack'].url}/api",
        "FAULTLINE_RECORDED__CASE": str(case),
        STATE: str(directory / "state"),
        "FAULTLINE_WORKER__NICENESS": "0",  # what sends and what answers share the machine with it
        "FAULTLINE_PROMETHEUS__TOKEN": "t",
        "FAULTLINE_LOKI__TOKEN": "t",
        "FAULTLINE_GITHUB__TOKEN": "t",
    }


def _catalogue(tables: Mapping[str, Any]) -> str:
    lines = [
        f"[services.{name}]\ndepends_on = {json.dumps(STORMY[n + 1 : n + 2])}"
        for n, name in enumerate(STORMY)
    ]
    lines += [
        f"[services.shop-{n}]\ngithub_repository = [{json.dumps(REPOSITORY)}]" for n in range(SHOPS)
    ]
    lines += [f"[services.quiet-{n}]" for n in range(QUIET)]
    lines += [f"[services.crowd-{n}]" for n in range(CROWD)]
    for team, count in (("quiet", QUIET), ("crowd", CROWD)):
        lines.append(
            f"[teams.{team}]\nservices = {json.dumps([f'{team}-{n}' for n in range(count)])}"
        )
    for table, values in tables.items():
        remaining_values = {
            key: value for key, value in values.items() if key not in ("token", "queries")
        }
        lines.append(
            "\n".join(
                [
                    f"[{table}]",
                    *(f"{key} = {json.dumps(value)}" for key, value in remaining_values.items()),
                ]
            )
        )
    return "\n\n".join(lines) + "\n"


def _emptied(directory: Path) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    return directory
