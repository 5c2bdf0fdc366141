"""Every reply target: Faultline's own, and those that other packages bring.

A target is one object. What it says of itself here is plain data and pure: its name, its section,
its addresses, its limits. How it posts is `faultline.bot.answer.targets.target_type`, which only
the worker and `faultline check` load. `faultline.bot.settings.reply_targets` lists them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

from faultline.analysis.vocabulary import Alert, Scope, Window
from faultline.bot.policy.values import ReplyTo
from faultline.bot.settings import Settings, secret_variable
from faultline.bot.settings.reply_targets import BUILT_IN, SectionOwner
from faultline.connectors.shared.contract.plugins import load_object
from faultline.connectors.shared.settings.instances import Instance
from faultline.connectors.shared.settings.settings_types import Section

S = TypeVar("S", bound=Section)


@dataclass(frozen=True)
class ReplyLimits:
    """How fast a target may be used. The defaults are Slack's, the strictest that we know."""

    edit_every: timedelta = timedelta(seconds=10)
    """A message is edited at most this often for alerts that join. Slack takes about 50 edits a
    minute of a whole workspace (https://docs.slack.dev/apis/web-api/rate-limits, tier 3)."""
    channels_at_once: int = 40
    """Channels in which one worker posts first messages at the same time."""


@dataclass(frozen=True)
class TargetProblem:
    """Settings of a target that cannot do what somebody expects of them, for `faultline doctor`."""

    state: Literal["wrong", "note"]
    problem: str
    todo: str


class ReplyTargetDeclaration(SectionOwner, ABC, Generic[S]):
    """What a reply target says of itself."""

    name: str
    """The name of its section."""
    label: str
    """Its name for people."""
    settings: type[Any]
    """The model of its section in the settings file, `S`."""
    needs: tuple[str, ...]
    """Keys of its section without which it is not used."""
    announces: ClassVar[bool] = False
    """Whether a first message is posted as soon as an alert is accepted."""
    on_click: ClassVar[bool] = False
    """Whether nothing is posted there before a person asks for it."""
    has_channels: ClassVar[bool] = False
    """Whether its addresses are channels, which have rates, quiet hours and digests."""
    limits: ClassVar[ReplyLimits] = ReplyLimits()
    table: Section | None = None
    """The table that it posts by, where its section is given several times."""

    def for_table(self, table: Section) -> Self:
        """The same target, for one table of its section."""
        if not table.instance.name:
            return self
        # A copy: all settings share the declaration.
        target = copy(self)
        target.table = table
        return target

    def scoped_to(self, settings: Settings) -> Self:
        """The same target, for the table that these settings were made for."""
        return self.for_table(getattr(settings, self.name))

    @property
    def instance(self) -> Instance:
        """Which one its table is."""
        return self.table.instance if self.table else Instance()

    @property
    def target_name(self) -> str:
        """In keys of posts, queues and progress lines: `slack`, and of several `slack eu`."""
        return f"{self.name} {self.instance.name}".rstrip()

    @property
    def target_label(self) -> str:
        """Its name for people, with that of its table."""
        return f"{self.label} {self.instance.name}".rstrip()

    def scoped_settings(self, settings: Settings) -> Settings:
        """The settings with its table as its section."""
        return settings.model_copy(update={self.name: self.table}) if self.table else settings

    def section(self, settings: Settings) -> S | None:
        """Its section, or None where the settings have none."""
        section = self.table or getattr(settings, self.name, None)
        return section if isinstance(section, self.settings) else None

    def configured(self, settings: Settings) -> bool:
        """Whether answers are posted there."""
        section = self.section(settings)
        return section is not None and all(getattr(section, key) for key in self.needs)

    @property
    def switched_on_by(self) -> str:
        """The variable to set for it, for people who have no reply target yet."""
        return self.variable(self.needs[0])

    def variable(self, key: str) -> str:
        """The variable that sets a key of its table."""
        return secret_variable(self.name, key, self.instance.name)

    @abstractmethod
    def address(self, reply_to: ReplyTo, service: str | None, settings: Settings) -> str | None:
        """Where an investigation is answered there, or None where it is not.

        `service` is the catalogue's name of the alert's service. Pure and fast: it is asked in the
        transaction that accepts an alert.
        """

    def address_for(
        self, alert: Alert, service: str | None, reply_to: ReplyTo, settings: Settings
    ) -> str | None:
        """The address for an alert, for targets that go by more of it than its service."""
        return self.address(reply_to, service, settings)

    def covers(self, alert: Alert, service: str | None) -> bool:
        """Whether an alert is about what its table covers; a single section covers everything."""
        at = Window(start=alert.started_at, end=alert.started_at)
        scope = Scope(incident=at, services=(service,) if service else ())
        return self.instance.covers.objection(alert, scope) is None

    def post_key(self, investigation_id: str) -> str:
        """The key under which the store keeps the investigation's post at this target."""
        return f"{investigation_id}:{self.target_name}"

    def problems(self, settings: Settings) -> Iterator[TargetProblem]:
        """Settings that contradict each other."""
        yield from ()


@cache
def _built_in() -> tuple[ReplyTargetDeclaration[Any], ...]:
    # They are loaded by name and late, because they lie in a room above this one.
    declared = [load_object(target) for target in BUILT_IN.values()]
    for declaration in declared:
        assert isinstance(declaration, ReplyTargetDeclaration), declaration
    return tuple(declared)  # type: ignore[arg-type]


def declared_targets(settings: Settings) -> tuple[ReplyTargetDeclaration[Any], ...]:
    """All of them, Faultline's own first, whether configured or not; one whose section is given
    several times once for each table."""
    plugins = []
    for name, declared in settings.reply_target_plugins.items():
        # One of Faultline's own whose section is no field of the settings is listed already.
        if name not in BUILT_IN and isinstance(declared, ReplyTargetDeclaration):
            plugins.append(declared)
    declarations: list[ReplyTargetDeclaration[Any]] = []
    for plugin in (*_built_in(), *plugins):
        tables = settings.instances(plugin.name)
        declarations += [plugin.for_table(table) for table in tables] or [plugin]
    return tuple(declarations)


def configured_targets(settings: Settings) -> tuple[ReplyTargetDeclaration[Any], ...]:
    """Those that the settings use."""
    return tuple(
        declared_target
        for declared_target in declared_targets(settings)
        if declared_target.configured(settings)
    )


def reply_channel(alert: Alert, service: str | None, reply_to: ReplyTo, settings: Settings) -> str:
    """The channel in which an investigation is answered, by which rates and quiet hours go.

    `service` is the catalogue's name of the alert's. The first target that has channels decides;
    "" where there is none.
    """
    with_channels = [
        declared_target
        for declared_target in declared_targets(settings)
        if declared_target.has_channels
    ]
    # A channel can be named for a target that is not switched on. It decides last, but it decides:
    # alert rules may name it.
    with_channels.sort(key=lambda declaration: not declaration.configured(settings))
    for declaration in with_channels:
        channel = declaration.address_for(alert, service, reply_to, settings)
        if channel:
            return channel
    return ""


def targets_of(
    alert: Alert, service: str | None, reply_to: ReplyTo, settings: Settings
) -> frozenset[str]:
    """If several targets of one kind have channels: those that an alert is posted to.

    The server asks too, and has the tokens of few of them.
    """
    names: set[str] = set()
    for declared_target in declared_targets(settings):
        has_channels = declared_target.table is not None and declared_target.has_channels
        if has_channels and declared_target.address_for(alert, service, reply_to, settings):
            names.add(declared_target.target_name)
    return frozenset(names)


def slowest_edits(settings: Settings) -> timedelta:
    """How often a message is edited at most, so that no configured target is asked too often."""
    every = [
        configured_target.limits.edit_every for configured_target in configured_targets(settings)
    ]
    return max(every, default=ReplyLimits().edit_every)


def fewest_channels_at_once(settings: Settings) -> int:
    """Channels in which first messages are posted at the same time, by the strictest target."""
    limits = [
        configured_target.limits
        for configured_target in configured_targets(settings)
        if configured_target.announces
    ]
    return min((limit.channels_at_once for limit in limits), default=ReplyLimits().channels_at_once)
