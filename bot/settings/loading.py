"""Settings: one TOML file, and secrets from the environment or files that it names alone.

`load_settings` reads `faultline.toml` (or the file named), then the environment:
`FAULTLINE_<SECTION>__<KEY>`, and for secrets also `FAULTLINE_<SECTION>__<KEY>_FILE`, the path of a
file that holds the value, as Docker and Kubernetes mount them. A connector's section may be given
several times: `[[prometheus]]`, each table with a name. A secret in the file, an unknown key or a
wrong value stops the start with one line naming the key.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from faultline.analysis.errors import SettingsError
from faultline.analysis.secrets.redaction import use_rules
from faultline.bot.settings import did_you_mean
from faultline.bot.settings.alerts import watches_by_name
from faultline.bot.settings.environment import (
    ENV_PREFIX,
    Variable,
    is_secret,
    secret_variable,
    sections_of_environment,
    variable_part,
    variables,
)
from faultline.bot.settings.extras import EXTRA_OF_SECTION, refuse_missing
from faultline.bot.settings.settings import (
    INSTANCE_KEYS,
    NAMED_TABLES,
    InstanceTable,
    Settings,
    sections_that_repeat,
    settings_model,
    tables_of,
)
from faultline.connectors.shared.rows.named_ids import bare_id, instance_in
from faultline.connectors.shared.settings.instances import Covers
from faultline.connectors.shared.settings.settings_types import Section, unset

DEFAULT_FILE = "faultline.toml"
Tables = dict[str, dict[str, Any]]
"""The tables of one section, by the middle of their variables' names."""
_is_id = re.compile(r"[CDG][A-Z0-9]{2,20}").fullmatch
CHANNEL_KEYS = ("alert_channels", "deploy_channels", "quiet_channels")
"""Keys of a workspace's own table; what they name is in that workspace."""


def load_settings(file: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings file (it may be absent unless named) and the environment. Raises
    SettingsError."""
    environ = os.environ if environ is None else environ
    named = environ.get(ENV_PREFIX + "CONFIG")
    chosen = file or (Path(named) if named else None)
    if chosen is None and Path(DEFAULT_FILE).exists():
        chosen = Path(DEFAULT_FILE)
    settings = settings_of(_read_toml(chosen) if chosen else {}, environ)
    refuse_missing({name: _is_set(settings, name) for name in EXTRA_OF_SECTION})
    # Here and not where each process begins, so that no command runs without them.
    use_rules(settings.redaction.as_rules)
    return settings


def _is_set(settings: Settings, section: str) -> bool:
    return any(table != unset(type(table)) for table in settings.instances(section))


def settings_of(values: dict[str, Any], environ: Mapping[str, str]) -> Settings:
    """Settings of what the file holds and of the environment. Raises SettingsError."""
    sections = {*values, *sections_of_environment(environ)}
    # Sorted, because the model is cached by this tuple.
    model = settings_model(tuple(sorted(sections - set(Settings.model_fields))))
    tables = {name: table for name, table in tables_of(model).items() if name not in NAMED_TABLES}
    for name in values:
        if name not in model.model_fields:
            near = did_you_mean.for_section(name, tables, model.model_fields, values[name])
            raise SettingsError(name, "no such section of the settings" + near)
    # Before the validation, which knows watches by name alone.
    watches_by_name(values)
    several = sections_that_repeat(model)
    repeated = take_instances(values, several, model.model_fields)
    for name, table in values.items():
        if name in tables and isinstance(table, dict):
            refuse_secrets(name, table, tables[name])
    for variable in variables(environ, tables, repeated):
        if variable.section in repeated:
            add_variable(variable, repeated[variable.section])
            continue
        if variable.section not in tables:
            near = did_you_mean.suggestion(variable.section, tables)
            raise SettingsError(variable.name, "no such section of the settings" + near)
        # A section may be set by the environment alone.
        table = values.setdefault(variable.section, {})
        if not isinstance(table, dict):
            raise SettingsError(variable.section, "must be a table")
        table[variable.key] = variable.value
    try:
        settings = model.model_validate(values)
    except ValidationError as error:
        # `from None`: the original error quotes values, and secrets may be among them.
        raise problem_in(error, model) from None
    settings = settings.with_instances(instances_of(repeated, several))
    refuse_unknown_workspaces(settings)
    return settings


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(
            str(path), f"the settings file cannot be read ({error.strerror})"
        ) from error
    except UnicodeDecodeError as error:
        raise SettingsError(str(path), "is not UTF-8 text") from error
    except RecursionError:
        raise SettingsError(str(path), "nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(str(path), f"is not valid TOML: {error}") from error


def take_instances(
    values: dict[str, Any], allowed: Mapping[str, type[Section]], sections: Iterable[str]
) -> dict[str, Tables]:
    """The sections that are lists of tables, taken out of `values`.

    `allowed` are those that may be given so, `sections` all. Raises SettingsError naming section
    and table.
    """
    tables: dict[str, Tables] = {}
    # Collect the names first, because the loop deletes from `values`.
    for section in [name for name, value in values.items() if isinstance(value, list)]:
        section_tables = values[section]
        if section not in sections:
            continue
        if section not in allowed:
            raise SettingsError(section, f"must be one table, [{section}]")
        del values[section]
        if section_tables:
            tables[section] = _by_name(section, section_tables)
        for table in tables.get(section, {}).values():
            refuse_secrets(section, table, allowed[section], table["name"])
    return tables


def refuse_secrets(
    section: str, table: Mapping[str, Any], model: type[BaseModel], instance: str | None = None
) -> None:
    """Raise SettingsError where a table of the file holds a secret."""
    for key in table:
        # An address without a password may be in the file.
        is_exempt = (section, key) == ("store", "database")
        if key in model.model_fields and is_secret(model, key) and not is_exempt:
            variable = secret_variable(section, key, instance)
            path = f"{section}.{instance}.{key}" if instance else f"{section}.{key}"
            raise SettingsError(path, f"is a secret: set {variable} in the environment instead")


def add_variable(variable: Variable, tables: Tables) -> None:
    """Put what a variable says into its table. Raises SettingsError where there is none."""
    table = tables.get(variable.instance or "")
    if table is None:
        names = ", ".join(table["name"] for table in tables.values())
        problem = f"there is no such table: [[{variable.section}]] has {names}"
        raise SettingsError(variable.name, problem)
    if variable.key in INSTANCE_KEYS:
        raise SettingsError(variable.name, f"{variable.key} can only be set in the file")
    table[variable.key] = variable.value


def instances_of(
    tables_by_section: Mapping[str, Tables], allowed: Mapping[str, type[Section]]
) -> dict[str, tuple[Section, ...]]:
    """The instances, checked. Raises SettingsError naming section, table and key."""
    instances: dict[str, tuple[Section, ...]] = {}
    for section, tables in tables_by_section.items():
        model = allowed[section]
        made = [_instance(section, table, model) for table in tables.values()]
        instances[section] = tuple(made)
    return instances


def problem_in(error: ValidationError, model: type[BaseModel], *above: str) -> SettingsError:
    """The first thing that is wrong, in one line that names the key."""
    # The input may be a secret.
    first = error.errors(include_input=False)[0]
    key = ".".join([*above, *(str(part) for part in first["loc"])])
    if first["type"] == "extra_forbidden":
        return SettingsError(key, "no such setting" + did_you_mean.for_key(model, first["loc"]))
    # pydantic puts these words before the message of a ValueError.
    message = first["msg"].removeprefix("Value error, ")
    return SettingsError(key, message[:1].lower() + message[1:])


def _by_name(section: str, section_tables: list[Any]) -> Tables:
    tables: Tables = {}
    for table in section_tables:
        if not isinstance(table, dict):
            raise SettingsError(section, f"must be a table or several of [[{section}]]")
        name = table.get("name")
        if name is None:
            problem = f'each [[{section}]] needs a name, such as name = "prod-eu"'
            raise SettingsError(section, problem)
        if not isinstance(name, str) or not _is_usable(name):
            problem = "must be letters and digits, with single - _ or . between, 40 at most"
            raise SettingsError(f"{section}.name", f"{str(name)[:60]!r} {problem}")
        part = variable_part(name)
        other = tables.get(part)
        if other is not None:
            raise SettingsError(f"{section}.name", _clash(section, name, other["name"]))
        tables[part] = dict(table)
    return tables


def _is_usable(name: str) -> bool:
    try:
        InstanceTable(name=name)
    except ValidationError:
        return False
    return True


def _clash(section: str, name: str, other: str) -> str:
    if name == other:
        return f"two of [[{section}]] are named {name!r}"
    variable = secret_variable(section, "", name)
    return f"{other!r} and {name!r} of [[{section}]] have the same variables, {variable}..."


def _instance(section: str, table: Mapping[str, Any], model: type[Section]) -> Section:
    name = table["name"]
    values = {key: value for key, value in table.items() if key not in INSTANCE_KEYS}
    try:
        head = InstanceTable(name=name, covers=table.get("covers", {}))
    except ValidationError as error:
        raise problem_in(error, InstanceTable, section, name) from None
    try:
        checked = model.model_validate(values)
    except ValidationError as error:
        raise problem_in(error, model, section, name) from None
    return checked.as_instance(name, Covers.of(head.covers))


def refuse_unknown_workspaces(settings: Settings) -> None:
    """Raise SettingsError where a channel's workspace is not known.

    A single `[slack]` has no name that a channel could be written with.
    """
    names = [table.instance.name for table in settings.instances("slack")]
    if names == [""]:
        return
    for key, channel in _named_channels(settings):
        if _is_id(bare_id(channel)) and instance_in(channel) not in names:
            written = " or ".join(f"{name}:{bare_id(channel)}" for name in names)
            raise SettingsError(key, f"{channel!r} names no workspace: write {written}")
    for table in settings.instances("slack"):
        name = table.instance.name
        for key, channel in _table_channels(table):
            if instance_in(channel):
                problem = f"{channel!r}: here the id alone, it is a channel of {name}"
                raise SettingsError(f"slack.{name}.{key}", problem)


def _named_channels(settings: Settings) -> Iterator[tuple[str, str]]:
    """Every channel outside of the workspaces' own tables, and the key that names it.

    Channels of other reply targets look otherwise.
    """
    for name, service in settings.services.items():
        if service.slack_channel:
            yield f"services.{name}.slack_channel", service.slack_channel
    for rule in settings.alerts.rules:
        for channel in rule.channel:
            yield "alerts.rules.channel", channel
    for channel in settings.alerts.channels:
        yield f"alerts.channels.{channel}", channel
    for name, team in settings.teams.items():
        for channel in team.channels:
            yield f"teams.{name}.channels", channel


def _table_channels(table: object) -> Iterator[tuple[str, str]]:
    single = getattr(table, "channel", None)
    if single:
        yield "channel", single
    for key in CHANNEL_KEYS:
        for channel in getattr(table, key):
            yield key, channel
