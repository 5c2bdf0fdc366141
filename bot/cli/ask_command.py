"""`faultline ask`: an investigation from a terminal, against the configured sources or against
addresses given on the spot."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.text import Text

from faultline.analysis.errors import EvidenceError, SettingsError
from faultline.bot.answer.replay import as_json, print_report, replay
from faultline.bot.cli.follow_up import answer_follow_ups
from faultline.bot.cli.terminal_chart import print_chart
from faultline.bot.intake.incident_requests import IncidentRequest, arrival_of, since_of
from faultline.bot.processes.local_bot import LocalBot, local_bot
from faultline.bot.settings import Settings, load_settings
from faultline.bot.settings.environment import ENV_PREFIX
from faultline.bot.store.store import Progress, StoredInvestigation
from faultline.connectors.registry import build_connectors
from faultline.connectors.vendors.kubernetes.kubeconfig import current_context

KUBERNETES = "kubernetes"
NO_SOURCE = (
    "no source is configured: give one, such as --prometheus http://localhost:9090, or write a "
    "settings file (docs/configuration.md)"
)
FAILED = 1


@dataclass(frozen=True)
class AskOptions:
    """The options of the command."""

    service: str | None = None
    since: str | None = None
    urls: Mapping[str, str] = field(default_factory=dict)
    """Addresses by connector."""
    context: str | None = None
    kubernetes: bool = True
    """Whether the current context of a kubeconfig is asked."""
    config: Path | None = None
    as_json: bool = False
    case: Path | None = None
    html: Path | None = None


def ask(question: str, options: AskOptions) -> int:
    """Investigate, print the answer, and answer questions about it. Returns the exit code."""
    # Raise SettingsError where the page could not be written after all.
    file = options.html
    if file is not None and (file.is_dir() or not file.absolute().parent.is_dir()):
        raise SettingsError("--html", f"{file} is no file in a folder that exists")
    settings = settings_for(options, os.environ)
    if not build_connectors(settings):
        raise SettingsError("ask", NO_SOURCE)
    now = datetime.now(UTC)
    incident = IncidentRequest(
        text=question,
        key=uuid.uuid4().hex,
        door="terminal",
        service=options.service,
        since=since_of(options.since, now) if options.since else None,
        zone=now.astimezone().tzinfo or UTC,
    )
    arrival = arrival_of(incident, settings, now)
    console = Console(stderr=True, highlight=False)
    with _scratch(options.case) as scratch, local_bot(settings, scratch) as bot:
        investigate = bot.investigate(arrival, lambda line: _say(console, line))
        return _answer(bot, investigate, scratch, options)


def settings_for(options: AskOptions, environ: Mapping[str, str]) -> Settings:
    """The configured settings with the sources that the options name. Raises SettingsError."""
    urls = {variable(name, "url"): url for name, url in options.urls.items()}
    settings = load_settings(options.config, {**environ, **urls})
    kubernetes_settings = getattr(settings, KUBERNETES)
    # The settings' own cluster wins over the current context.
    if (
        kubernetes_settings.url is not None
        or kubernetes_settings.kubeconfig is not None
        or not options.kubernetes
    ):
        return settings
    kube_context = current_context(environ, options.context)
    if kube_context is None:
        return settings
    urls[variable(KUBERNETES, "kubeconfig")] = str(kube_context.file)
    urls[variable(KUBERNETES, "context")] = kube_context.name
    urls[variable(KUBERNETES, "namespaces")] = kube_context.namespace
    # Load again, so that these values are checked like all others.
    return load_settings(options.config, {**environ, **urls})


def variable(section: str, key: str) -> str:
    """The variable that sets a key."""
    return f"{ENV_PREFIX}{section}__{key}".upper()


@contextmanager
def _scratch(case: Path | None) -> Iterator[Path]:
    """A folder for the bot's data. Raises SettingsError where the case could not be kept after
    all."""
    if case is not None and case.exists() and any(case.iterdir()):
        raise SettingsError("--case", f"{case} is not empty")
    with tempfile.TemporaryDirectory(prefix="faultline-ask-") as scratch:
        yield Path(scratch)


def _say(console: Console, line: Progress) -> None:
    at = line.at.astimezone()
    console.print(Text(f"{at:%H:%M:%S}  {line.text}", style="dim"))


def _answer(
    bot: LocalBot, investigation: StoredInvestigation, scratch: Path, options: AskOptions
) -> int:
    folder = scratch / "cases" / investigation.id
    if options.case is not None and folder.is_dir():
        shutil.copytree(folder, options.case, dirs_exist_ok=True)
        folder = options.case
    if investigation.status == "failed":
        sys.stderr.write(f"faultline: {investigation.headline}\n")
        return FAILED
    if options.html is not None:
        _write_page(investigation, folder, options.html)
    replayed = replay(folder)
    if options.as_json:
        answer = {"id": investigation.id, **as_json(replayed)}
        sys.stdout.write(json.dumps(answer, indent=1, ensure_ascii=False) + "\n")
        return 0
    print_report(replayed)
    print_chart(replayed.case, replayed.diagnosis, folder)
    if options.case is not None:
        sys.stdout.write(f"Kept as {options.case}: faultline investigate {options.case}\n")
    if options.html is not None:
        sys.stdout.write(f"Written as a page: {options.html}\n")
    # Questions need a person at both ends.
    if sys.stdin.isatty() and sys.stdout.isatty():
        answer_follow_ups(bot.settings, investigation, folder)
    return 0


def _write_page(investigation: StoredInvestigation, folder: Path, file: Path) -> None:
    # Late: the pages' templates take a moment to load, and few ask for one.
    from faultline.bot.web.answer_file import answer_file

    try:
        file.write_text(answer_file(investigation, folder), encoding="utf-8")
    except OSError as error:
        strerror = error.strerror or type(error).__name__
        raise EvidenceError(str(file), f"cannot be written ({strerror})") from error
