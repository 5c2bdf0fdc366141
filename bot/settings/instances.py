"""Sections that are given several times: `[[prometheus]]`, each table with a name.

Which table a section is, and what it covers, travels with it as its `instance`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from faultline.analysis.errors import SettingsError
from faultline.bot.settings import did_you_mean
from faultline.bot.settings.environment import (
    Variable,
    is_secret,
    secret_variable,
    variable_part,
)
from faultline.connectors.shared.settings.instances import Covers
from faultline.connectors.shared.settings.settings_types import Names, Section

NAME = r"[A-Za-z0-9]+(?:[-_.][A-Za-z0-9]+)*"
"""A name that can also stand in a variable, between two double underscores."""


class InstanceTable(Section):
    """The keys of an instance beside those of its section."""

    name: str = Field(pattern=f"^{NAME}$", max_length=40)
    """Its name in evidence and gaps."""
    covers: Mapping[str, Names] = Field(default_factory=dict)
    """What it covers: values of labels, such as `cluster`, and `services`. `*` stands for anything.
    Unset: everything."""


INSTANCE_KEYS = tuple(InstanceTable.model_fields)

Tables = dict[str, dict[str, Any]]
"""The tables of one section, by the middle of their variables' names."""


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
