"""All alert sources: those of Faultline, then those that other packages bring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from faultline.analysis.errors import SettingsError
from faultline.bot.intake.alert_source import AlertSource
from faultline.bot.settings import Settings
from faultline.bot.settings.alert_sources import BUILT_IN, GROUP, built_in, load_declared
from faultline.connectors.shared.contract.plugins import Plugin, installed


def alert_sources() -> tuple[AlertSource, ...]:
    """Every source, configured or not. Raises SettingsError for a plug-in that cannot be used."""
    built = list(built_in_sources())
    for plugin in installed(GROUP).values():
        source = _loaded(plugin)
        # Raise SettingsError where the source would take over what is somebody else's.
        ours = Settings.model_fields.get(source.section)
        if ours is not None and ours.annotation is not source.settings:
            problem = f"{plugin.package}: Faultline already has a section [{source.section}]"
            raise SettingsError(plugin.name, problem)
        for other in built:
            if other.name == source.name:
                problem = f"{plugin.package}: an alert source with that name already exists"
                raise SettingsError(plugin.name, problem)
            shared = set(other.paths) & set(source.paths)
            if shared:
                problem = f"{plugin.package}: {shared.pop()} is already the path of {other.name}"
                raise SettingsError(plugin.name, problem)
        built.append(source)
    return tuple(built)


def built_in_sources() -> tuple[AlertSource, ...]:
    """Faultline's own."""
    return tuple(_loaded(built_in(name)) for name in BUILT_IN)


def labels_by_path(
    sources: Iterable[AlertSource], settings: Settings | None = None
) -> Mapping[str, str]:
    """The HTTP paths of these sources, and what metrics call requests there.

    Without settings, those of a single table of each section.
    """
    labels: dict[str, str] = {}
    for source in sources:
        labels |= source.paths if settings is None else source.paths_in(settings)
    return labels


def _loaded(plugin: Plugin) -> AlertSource:
    declared = load_declared(plugin)
    if not isinstance(declared, AlertSource):
        kind = type(declared).__name__
        problem = f"{plugin.package} ({plugin.target}) is a {kind}, not an AlertSource"
        raise SettingsError(plugin.name, problem)
    return declared
