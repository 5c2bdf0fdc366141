"""What other packages add to Faultline, found through entry points.

A package names its own object in its metadata (packaging.python.org, "Entry points
specification"), for example in pyproject.toml:

    [project.entry-points."faultline.connectors"]
    statuspage = "faultline_statuspage:CONNECTOR"

Nothing of such a package is imported before the settings use it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TypeVar

from faultline.analysis.errors import SettingsError

T = TypeVar("T")

_NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
"""A section of the settings that can also be set as `FAULTLINE_<SECTION>__<KEY>`."""


@dataclass(frozen=True)
class Plugin:
    """One entry point. `target` is `module:attribute`, `package` the distribution and its
    version."""

    name: str
    target: str
    package: str


def installed(group: str) -> Mapping[str, Plugin]:
    """The entry points of a group by name. Raises SettingsError when two packages give one name."""
    # Reading the metadata of every installed package takes a while, so callers ask only when the
    # settings name something that Faultline itself does not have.
    from importlib.metadata import entry_points

    plugins: dict[str, Plugin] = {}
    for entry in entry_points(group=group):
        package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown package"
        plugin = Plugin(entry.name, entry.value, package)
        other = plugins.get(entry.name)
        # One package can lie on the path twice, then Python too takes the first.
        if other is None:
            plugins[entry.name] = plugin
        elif other.target != plugin.target:
            problem = f"is declared by {other.package} and by {package}; uninstall one of them"
            raise SettingsError(entry.name, problem)
    return plugins


def load_plugin(plugin: Plugin, of: type[T]) -> T:
    """The object that a plug-in declares. Raises SettingsError, whatever goes wrong within it."""
    whose = f"{plugin.package} ({plugin.target})"
    if not _NAME.fullmatch(plugin.name):
        raise SettingsError(plugin.name, f"is not a usable section name, declared by {whose}")
    try:
        loaded = load_object(plugin.target)
    # Foreign code may raise anything at import, and the operator needs to know whose it is.
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise SettingsError(plugin.name, f"cannot load {whose}: {reason}") from error
    if not isinstance(loaded, of):
        problem = f"{whose} is a {type(loaded).__name__}, not a {of.__name__}"
        raise SettingsError(plugin.name, problem)
    return loaded


def load_object(target: str) -> object:
    """What `module:attribute` names. Raises whatever the import raises, and AttributeError."""
    module, _, attribute = target.partition(":")
    loaded: object = import_module(module.strip())
    # Older packages append extras in brackets: "module:attribute [extra]".
    for name in attribute.split("[")[0].strip().split("."):
        loaded = getattr(loaded, name)
    return loaded
