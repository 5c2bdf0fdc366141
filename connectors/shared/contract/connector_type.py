"""What declares a connector, once, for settings, registry, `faultline check` and the docs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from faultline.analysis.errors import SettingsError
from faultline.analysis.vocabulary import EvidenceKind
from faultline.connectors.shared.contract.plugins import load_object
from faultline.connectors.shared.settings.settings_types import Section

if TYPE_CHECKING:
    from faultline.connectors.shared.contract.base import Connector
    from faultline.connectors.shared.settings.shared_settings import SharedSettings

S = TypeVar("S", bound=Section)
Build = Callable[[S, "SharedSettings"], "Connector | None"]


@dataclass(frozen=True)
class Listing:
    """A connector's row in docs/connectors/README.md, which `python docs/connectors_table.py`
    writes. Each field is a few words of Markdown."""

    title: str
    """The vendor's name, as the vendor writes it."""
    login: str
    """What one logs in with."""
    places: str
    """What tells clusters, regions and accounts apart."""
    permissions: str
    """The least that it needs."""
    tested_against: str
    """A real server, the published specification, or a stand-in after the documentation."""
    also: str = ""
    """What it brings besides its kinds."""


@dataclass(frozen=True)
class ConnectorType(Generic[S]):
    """One connector: a vendor of evidence.

    `build` takes the connector's own section and the settings that all connectors share. It gives
    the connector, or None where the section does not configure one, and raises SettingsError naming
    the key. `module:function` is imported when the section is set: importing every connector takes
    longer than starting the bot with two.
    """

    name: str
    """As in evidence, in `faultline check`, and the name of its section."""
    settings: type[S]
    """The model of its section in the settings file."""
    build: str | Build[S]
    kinds: tuple[EvidenceKind, ...]
    """What it can bring, as its `kinds`."""
    docs: str
    """Its page: a file of docs/connectors, or a URL."""
    listing: Listing | None = None
    """Its row in the table of connectors; one of another package needs none."""
    reads_jobs: bool = False
    """Whether entries of [jobs] configure it too, even when its own section is empty."""
    several: bool = True
    """Whether its section can be given several times, as `[[name]]`:
    `faultline.connectors.shared.contract.instances`."""

    def configured(self, settings: SharedSettings) -> Connector | None:
        """The connector as these settings have it; None where they leave it alone.

        Raises SettingsError naming the key.
        """
        section = getattr(settings, self.name, None)
        if not isinstance(section, self.settings) or not self.is_set(settings):
            return None
        return self._build()(section, settings)

    def is_set(self, settings: SharedSettings) -> bool:
        """Whether anything in the settings is for it. Loads nothing, and a connector may still
        find that too little is set."""
        section = getattr(settings, self.name, None)
        if not isinstance(section, self.settings):
            return False
        has_jobs = self.reads_jobs and bool(settings.jobs)
        # Equal to the defaults means that the operator wrote nothing for it.
        return section != self.settings.model_construct() or has_jobs

    def all_configured(self, settings: SharedSettings) -> tuple[Connector, ...]:
        """The connector, or one for each instance. Raises SettingsError naming the key."""
        connectors = [
            self._instance(table, settings) if table.instance.name else self.configured(settings)
            for table in settings.instances(self.name)
        ]
        return tuple(connector for connector in connectors if connector is not None)

    def _instance(self, table: Section, settings: SharedSettings) -> Connector | None:
        # Late, like the connectors themselves.
        from faultline.connectors.shared.contract.instances import (
            ConnectorInstance,
            visible_settings,
        )
        from faultline.connectors.shared.transport.rate_limiter import asking_instance

        assert isinstance(table, self.settings)
        name = table.instance.name
        try:
            # A connector may take its rate limiter while it is built, under the instance's name.
            with asking_instance(name):
                connector = self._build()(table, visible_settings(settings, self.name, table))
        except SettingsError as error:
            # The operator looks for the key in the table of the instance.
            key = error.key.replace(f"{self.name}.", f"{self.name}.{name}.", 1)
            raise SettingsError(key, error.problem) from error
        return None if connector is None else ConnectorInstance(connector, table)

    def _build(self) -> Build[S]:
        if not isinstance(self.build, str):
            return self.build
        build: Any = load_object(self.build)
        return build  # type: ignore[no-any-return]
