"""Writes the names of the settings' secrets for the Terraform module: `python -m
infra.checks.settings_secrets`.

In the names of those that each instance of a section has for itself, `<NAME>` stands for the
instance's name.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from pydantic import BaseModel

from faultline.bot.settings import NAMED_TABLES, Settings, is_secret, secret_variable
from faultline.bot.settings.environment import ProcessRole, needed_by
from faultline.bot.settings.settings import sections_that_repeat

SET_BY_THE_MODULE = "FAULTLINE_STORE__DATABASE"
NAME = "<NAME>"
A_NAME = "[A-Z0-9]+(?:_[A-Z0-9]+)*"
"""The name of an instance as it stands in variables."""
FILE = Path(__file__).parents[1] / "terraform/settings-secrets.json"


def secret_names(role: ProcessRole | None = None) -> list[str]:
    """The environment variables that hold secrets, sorted, of one process or of all; without the
    one that the module itself sets."""
    secret_variables = []
    several = sections_that_repeat(Settings)
    for name, field in Settings.model_fields.items():
        section = field.annotation
        if (
            name in NAMED_TABLES
            or not isinstance(section, type)
            or not issubclass(section, BaseModel)
        ):
            continue
        for key in section.model_fields:
            if not is_secret(section, key) or not (role is None or needed_by(role, name, key)):
                continue
            secret_variables.append(secret_variable(name, key))
            if name in several:
                secret_variables.append(secret_variable(name, key, NAME))
    return sorted(set(secret_variables) - {SET_BY_THE_MODULE})


def is_secret_name(variable: str) -> bool:
    """Whether a variable holds a secret, of an instance too."""
    return any(re.fullmatch(name.replace(NAME, A_NAME), variable) for name in secret_names())


def content() -> str:
    """The file: the names by process."""
    by_role = {"server": secret_names("server"), "worker": secret_names("worker")}
    return json.dumps(by_role, indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(content(), encoding="utf-8")
