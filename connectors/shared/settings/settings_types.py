"""What every table of the settings file is made of."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    PrivateAttr,
    SecretStr,
    field_validator,
)
from pydantic_core import CoreSchema, core_schema

from faultline.connectors.shared.settings.instances import Covers, Instance


def _split(value: Any) -> Any:
    return [v.strip() for v in value.split(",") if v.strip()] if isinstance(value, str) else value


def _base_url(value: str) -> str:
    if not value.startswith(("http://", "https://")):
        raise ValueError("must begin with http:// or https://")
    return value.rstrip("/")


def _readable_place(value: str) -> str:
    # Refuse other schemes: `gcs://bucket` would be taken for a directory of that name.
    if re.match(r"(?!s3://[^/])\w+:", value):
        raise ValueError("must be s3://bucket/prefix or a directory")
    return value


def _readable_object_place(value: str) -> str:
    if re.match(r"(?:gs|abfss|https)://[^/]", value):
        return value
    return _readable_place(value)


def _network(value: str) -> str:
    try:
        return str(ipaddress.ip_network(value))
    except ValueError:
        raise ValueError("must be addresses or networks such as 10.0.0.0/8") from None


def plain_names(value: tuple[str, ...]) -> tuple[str, ...]:
    """Names that stand in a path or a query as they are. Raises ValueError."""
    for name in value:
        # A name of dots alone would lead out of its folder.
        if not re.fullmatch(r"[\w.@ -]{1,200}", name) or not name.strip(". "):
            raise ValueError("must be names of letters, digits, spaces and . _ @ -")
    return value


Url = Annotated[str, AfterValidator(_base_url)]
Secrets = Annotated[tuple[SecretStr, ...], BeforeValidator(_split)]
Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
Networks = Annotated[tuple[Annotated[str, AfterValidator(_network)], ...], BeforeValidator(_split)]
"""IP addresses and networks in CIDR notation."""
Location = Annotated[str, AfterValidator(_readable_place)]
"""A directory or `s3://bucket/prefix`."""
TracesLocation = Annotated[str, AfterValidator(_readable_object_place)]
"""That, or an address in Google's or Azure's object store."""
Locations = Annotated[tuple[TracesLocation, ...], BeforeValidator(_split)]


class Section(BaseModel):
    """A table of the settings file."""

    # The fields' docstrings are read by who writes the page (`faultline.bot.settings.reference`):
    # pydantic would parse every section's source at every start. Built when a table is first read:
    # most installations set a few of the sections.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    # No field, because its two keys belong to tables of `[[section]]` alone.
    _instance: Instance = PrivateAttr(default_factory=Instance)

    @property
    def instance(self) -> Instance:
        """Which one it is where its section is given several times."""
        return self._instance

    def as_instance(self, name: str, covers: Covers) -> Self:
        """This table as one of several."""
        table = self.model_copy()
        table._instance = Instance(name, covers)
        return table

    @field_validator("*")
    @classmethod
    def _at_home(cls, value: Any) -> Any:
        """Paths may begin with `~`, as in a shell."""
        return value.expanduser() if isinstance(value, Path) else value


S = TypeVar("S", bound=Section)


def unset(section: type[S]) -> S:
    """The section with its defaults. It isn't built: nothing has to be checked."""
    return cast("S", section.model_construct())


class BuiltByNeed:
    """Marks a section among the settings whose validator is made when the section is given.

    The validator of a whole holds those of its parts, so without this each start would make those
    of all vendors.
    """

    def __get_pydantic_core_schema__(
        self, source: type[Section], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(source.model_validate)


def addresses_in(value: Any) -> Iterator[str]:
    """Every address in settings or a part of them; none that is a secret."""
    if isinstance(value, SecretStr):
        return
    if isinstance(value, str):
        if value.startswith(("http://", "https://")):
            yield value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from addresses_in(getattr(value, name))
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from addresses_in(part)
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from addresses_in(part)
