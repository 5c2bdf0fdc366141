"""`faultline init`: five questions, and from the answers the settings file and the file of
secrets."""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import socket
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

import typer

from faultline.analysis.errors import SettingsError
from faultline.bot.intake.alert_sources import built_in_sources
from faultline.bot.settings import DEFAULT_FILE, secret_variable
from faultline.bot.settings.loading import settings_of
from faultline.connectors.vendors.kubernetes.kubeconfig import ClusterContext, current_context

SECRETS_FILE = "secrets.env"
NONE = "none"
NO = frozenset({"n", "no", NONE})
"""What people answer to a question about something that they do not have."""
OURS_TO_CHOOSE = ("webhook_tokens",)
"""Keys of alert sources whose secret is not the vendor's to give."""
PROBE_S = 0.2
"""How long something on loopback has for being found: it answers in microseconds."""
PROMETHEUS = "http://localhost:9090"
PUBLIC_URL = "http://127.0.0.1:8080"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_CHANNEL = re.compile(r"[CG][A-Z0-9]{8,}")
"""https://docs.slack.dev/reference/objects/conversation-object: ids of channels begin so."""


@dataclass(frozen=True)
class InitOptions:
    """The options of the command. None is asked for, or takes its default."""

    directory: Path = field(default_factory=Path)
    prometheus: str | None = None
    kubernetes: str | None = None
    alerts: str | None = None
    slack_channel: str | None = None
    public_url: str | None = None
    ask: bool = True


@dataclass(frozen=True)
class Choices:
    """What the two files are made of."""

    prometheus: str | None
    kubernetes: ClusterContext | None
    alerts: tuple[str, ...]
    slack_channel: str | None
    public_url: str

    @property
    def is_reachable(self) -> bool:
        """Whether others than this machine come to the pages."""
        return urlsplit(self.public_url).hostname not in LOOPBACK

    @property
    def uses_slack(self) -> bool:
        """Whether it posts or listens there."""
        return self.slack_channel is not None or "slack" in self.alerts


def init(options: InitOptions, environ: Mapping[str, str]) -> None:
    """Ask, write both files, and say what comes next.

    Raises SettingsError for an answer that no bot can start with, or where one of the files exists.
    """
    files = [options.directory / name for name in (DEFAULT_FILE, SECRETS_FILE)]
    # Check before asking, so that nobody answers five questions for nothing.
    for file in files:
        if file.exists():
            raise SettingsError(str(file), "exists, and init overwrites nothing")
    choices = choices_of(options, environ)
    values = dict(secret_lines(choices, files[0].resolve()))
    settings = settings_file(choices)
    # What is written can be started with, so a mistake shows here and not later.
    settings_of(tomllib.loads(settings), {k: v for k, v in values.items() if v})
    _write(files[0], settings, 0o644)
    _write(files[1], secrets_file(values), 0o600)
    sys.stdout.write(next_steps(files, [name for name, value in values.items() if not value]))


def choices_of(options: InitOptions, environ: Mapping[str, str]) -> Choices:
    """The answers to the five questions. Raises SettingsError for an option that is wrong."""
    kube_context = current_context(environ)
    prometheus = _answer(
        options.ask,
        options.prometheus,
        "1. Prometheus, Thanos, Mimir or VictoriaMetrics (address)",
        PROMETHEUS if _listens(PROMETHEUS) else NONE,
        "--prometheus",
        _url,
    )
    context = _answer(
        options.ask,
        options.kubernetes,
        "2. Kubernetes (context of your kubeconfig)",
        kube_context.name if kube_context else NONE,
        "--kubernetes",
        lambda text: text if text == NONE else _context(text, environ).name,
    )
    alerts = _answer(
        options.ask,
        options.alerts,
        f"3. Alerts from ({', '.join(alert_names())})",
        "alertmanager" if prometheus != NONE else NONE,
        "--alerts",
        _alerts,
    )
    channel = _answer(
        options.ask,
        options.slack_channel,
        "4. Slack channel for the answers (its id, such as C0123456789)",
        NONE,
        "--slack-channel",
        _channel,
    )
    public_url = _answer(
        options.ask,
        options.public_url,
        "5. Address at which people and vendors reach the bot",
        PUBLIC_URL,
        "--public-url",
        lambda text: _url(text) if text != NONE else PUBLIC_URL,
    )
    return Choices(
        prometheus=_unless_none(prometheus),
        kubernetes=None if context == NONE else _context(context, environ),
        alerts=tuple(name for name in alerts.split(",") if name != NONE),
        slack_channel=_unless_none(channel),
        public_url=public_url,
    )


def alert_names() -> tuple[str, ...]:
    """The alert sources that can be chosen."""
    return tuple(source.name for source in built_in_sources())


def settings_file(choices: Choices) -> str:
    """The settings as TOML."""
    lines = ["# All keys: docs/configuration.md. Secrets are in the environment.", "", "[server]"]
    lines.append(f"public_url = {json.dumps(choices.public_url)} # links in answers begin with it")
    if choices.is_reachable:
        lines.append("# A proxy in front of it brings TLS: docs/install.md")
    if choices.prometheus is not None:
        lines += ["", "[prometheus]", f"url = {json.dumps(choices.prometheus)}"]
    if choices.kubernetes is not None:
        lines += ["", "[kubernetes]", f"kubeconfig = {json.dumps(str(choices.kubernetes.file))}"]
        lines.append(f"context = {json.dumps(choices.kubernetes.name)}")
        lines.append(f"namespaces = [{json.dumps(choices.kubernetes.namespace)}]")
    if choices.slack_channel is not None:
        channel = json.dumps(choices.slack_channel)
        lines += ["", "[slack]", f"channel = {channel} # answers to alerts from elsewhere"]
        if "slack" in choices.alerts:
            lines.append(f"alert_channels = [{channel}] # alerts that other bots post here")
    lines += ["", "# [services.checkout]"]
    lines.append('# aliases = ["checkout-api"] # other names that vendors use')
    lines.append('# depends_on = ["payments"]  # what it calls, if no source shows it')
    return "\n".join(lines) + "\n"


def secret_lines(choices: Choices, config: Path) -> Iterator[tuple[str, str]]:
    """Variable and value. An empty value is one that only a vendor can give."""
    yield "FAULTLINE_CONFIG", str(config)
    if choices.is_reachable:
        yield secret_variable("server", "access_token"), secrets.token_hex(32)
    if choices.uses_slack:
        yield secret_variable("slack", "bot_token"), ""
        # With Socket Mode, Slack need not reach the bot.
        by = "signing_secrets" if choices.is_reachable else "app_token"
        yield secret_variable("slack", by), ""
    for source in built_in_sources():
        if source.name in choices.alerts and source.name != "slack":
            key = source.required[0]
            made = secrets.token_hex(32) if key in OURS_TO_CHOOSE else ""
            yield secret_variable(source.section, key), made


def secrets_file(values: Mapping[str, str]) -> str:
    """The file of secrets, as a shell and systemd read it."""
    lines = [f"{name}={shlex.quote(value) if value else ''}" for name, value in values.items()]
    return "\n".join(["# Only the user that runs the bot may read this file.", *lines]) + "\n"


def next_steps(files: list[Path], missing: list[str]) -> str:
    """What to do now."""
    phrase = f"Wrote {files[0]}, and {files[1]} that only you can read.\n"
    if missing:
        phrase += f"Fill in there: {', '.join(missing)} (where to get them: docs/install.md).\n"
    load = shlex.quote(os.path.relpath(files[1]))
    # A shell looks for a bare name in PATH.
    place = load if "/" in load else f"./{load}"
    return (
        f"{phrase}Next:\n    set -a; . {place}; set +a\n    faultline check\n    faultline serve\n"
    )


def _answer(
    ask: bool,
    option_value: str | None,
    question: str,
    default: str,
    option: str,
    checked: Callable[[str], str],
) -> str:
    """The option, or the answer to the question, or the default."""
    if option_value is not None or not ask:
        try:
            return checked(option_value if option_value is not None else default)
        except ValueError as error:
            raise SettingsError(option, str(error)) from None
    while True:
        reply = str(typer.prompt(question, default=default)).strip() or default
        try:
            return checked(NONE if reply.casefold() in NO else reply)
        except (ValueError, SettingsError) as error:
            sys.stdout.write(f"   {error}\n")


def _unless_none(text: str) -> str | None:
    return None if text == NONE else text


def _url(text: str) -> str:
    if text == NONE:
        return text
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{text!r} is no address: it must begin with http:// or https://")
    return text.rstrip("/")


def _context(name: str, environ: Mapping[str, str]) -> ClusterContext:
    kube_context = current_context(environ, name)
    if kube_context is None:
        raise SettingsError("--kubernetes", f"there is no context {name!r}")
    # As kubectl does.
    return replace(kube_context, namespace=kube_context.namespace or "default")


def _alerts(text: str) -> str:
    names = [name.strip().casefold() for name in text.split(",") if name.strip()]
    for name in names:
        if name != NONE and name not in alert_names():
            raise ValueError(f"{name!r} is none of {', '.join(alert_names())} and {NONE}")
    return ",".join(names) or NONE


def _channel(text: str) -> str:
    if text != NONE and not _CHANNEL.fullmatch(text):
        raise ValueError(f"{text!r} is no channel's id: Slack shows it below the channel's details")
    return text


def _listens(url: str) -> bool:
    """Whether something does on this machine."""
    parts = urlsplit(url)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 80), PROBE_S):
            return True
    except OSError:
        return False


def _write(file: Path, text: str, mode: int) -> None:
    """A new file. Raises SettingsError where it exists by now or cannot be made."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # Created with its mode, and never over a file: nobody else can read a secret even briefly.
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            out.write(text)
    except OSError as error:
        raise SettingsError(str(file), f"cannot be written ({error.strerror})") from error
