"""What `faultline serve` says when it has begun: some lines on a terminal, else one in the log.

It names what the settings configure. Whether that answers is for `faultline check`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from faultline.bot.intake.alert_source import AlertSource
from faultline.bot.policy.reply_targets import configured_targets, declared_targets
from faultline.bot.runtime.logs import program_version
from faultline.bot.settings import Settings
from faultline.connectors.registry import CONNECTORS

log = logging.getLogger("faultline.server")


@dataclass(frozen=True)
class Greeting:
    """What there is to say. An empty part is one that nothing configures."""

    addresses: tuple[str, ...]
    pages: str
    alerts: tuple[str, ...]
    sources: tuple[str, ...]
    replies: tuple[str, ...]
    model: str | None
    reply_variable: str
    worker: bool
    config: Path | None

    def line(self) -> str:
        """For the log."""
        parts = [f"listening on {', '.join(self.addresses)}"]
        for name, names in self._parts():
            parts.append(f"{name.casefold()}: {', '.join(names) or 'none'}")
        return "; ".join(parts)

    def block(self) -> str:
        """For a terminal."""
        rows = [("Listening", ", ".join(self.addresses)), ("Pages", self.pages)]
        rows += [(name, ", ".join(names) or self._todo(name)) for name, names in self._parts()]
        lines = [f"Faultline {program_version()}", ""]
        lines += [f"  {name:<11}{text}" for name, text in rows]
        if not self.worker:
            lines.append(f"  {'Worker':<11}none in this process: run {self._command('worker')}")
        lines += ["", f"  {'Try it':<11}{self._trial()}"]
        lines.append(f"  {'Check it':<11}{self._command('check')} asks each of them")
        lines += ["", "Press Ctrl+C to stop.", ""]
        return "\n".join(lines)

    def _parts(self) -> Iterator[tuple[str, Sequence[str]]]:
        yield "Alerts", self.alerts
        yield "Sources", self.sources
        yield "Replies", self.replies
        yield "Model", (self.model,) if self.model else ()

    def _todo(self, name: str) -> str:
        return {
            "Alerts": "none: set the secret of an alert source, or investigate with `ask`",
            "Sources": "none: set prometheus.url or another source, so that there is evidence",
            "Replies": f"none: set {self.reply_variable}. Until then answers are on the pages",
            "Model": "none: the built-in writer words the answers",
        }[name]

    def _trial(self) -> str:
        if not self.sources:
            return "faultline init asks five questions and writes the settings"
        # A bot token alone only posts: Slack must also be an alert source.
        if "Slack" in self.replies and any("Slack" in alert for alert in self.alerts):
            return "@faultline investigate checkout errors since 10:05   (in Slack)"
        return self._command('ask "checkout is slow since 14:19"')

    def _command(self, words: str) -> str:
        file = f" --config {self.config}" if self.config else ""
        return f"faultline {words}{file}"


def greet(
    settings: Settings,
    addresses: Sequence[str],
    sources: Sequence[AlertSource],
    *,
    worker: bool,
    config: Path | None,
) -> None:
    """Say it where it is read."""
    greeting = greeting_of(settings, addresses, sources, worker=worker, config=config)
    if sys.stdout.isatty():
        sys.stdout.write(greeting.block() + "\n")
        sys.stdout.flush()
    else:
        log.info("%s", greeting.line())


def greeting_of(
    settings: Settings,
    addresses: Sequence[str],
    sources: Sequence[AlertSource],
    *,
    worker: bool,
    config: Path | None,
) -> Greeting:
    """What these settings have to say."""
    alerts = [name for source in sources for name in source.configured(settings)]
    replies = configured_targets(settings)
    return Greeting(
        addresses=tuple(addresses),
        pages=settings.server.public_url,
        alerts=tuple(alerts),
        sources=tuple(_evidence(settings)),
        replies=tuple(reply.target_label for reply in replies),
        model=settings.model.name,
        reply_variable=declared_targets(settings)[0].switched_on_by,
        worker=worker,
        config=config,
    )


def _evidence(settings: Settings) -> Iterator[str]:
    """The connectors that are configured, without loading them."""
    for connector in (*CONNECTORS.values(), *settings.plugins.values()):
        for table in settings.instances(connector.name):
            if table.instance.name:
                yield f"{connector.name} {table.instance.name}"
            elif connector.is_set(settings):
                yield connector.name
