"""Several servers of one vendor: `[[prometheus]]` in the settings instead of `[prometheus]`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, SecretStr

from faultline.connectors.shared.settings.covers import Covers
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


@dataclass(frozen=True)
class InstanceSettings:
    """One table of `[[prometheus]]`."""

    name: str
    covers: Covers
    section: Section
    """Its keys, as those of the section that stands alone."""

    @property
    def addresses(self) -> frozenset[str]:
        """The hosts (with ports) of the addresses that its keys name."""
        hosts = (urlsplit(url).netloc.casefold() for url in addresses_in(self.section))
        return frozenset(host for host in hosts if host)


def variable_part(name: str) -> str:
    """An instance's name as it stands in variables, in small letters."""
    # A variable's name allows neither hyphens nor dots.
    return re.sub(r"[-.]", "_", name).casefold()


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
