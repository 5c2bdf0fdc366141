"""Writes the names of the settings' secrets for the Terraform module: `python -m
infra.checks.settings_secrets`."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel

from bot.settings import NAMED_TABLES, Settings, is_secret, secret_variable

SET_BY_THE_MODULE = "FAULTLINE_STORE__DATABASE"
FILE = Path(__file__).parents[1] / "terraform/settings-secrets.json"


def secret_names() -> list[str]:
    """The environment variables that hold secrets, sorted; without the one that the module itself
    sets."""
    found = []
    for name, field in Settings.model_fields.items():
        section = field.annotation
        if (
            name in NAMED_TABLES
            or not isinstance(section, type)
            or not issubclass(section, BaseModel)
        ):
            continue
        found += [
            secret_variable(name, key) for key in section.model_fields if is_secret(section, key)
        ]
    return sorted(set(found) - {SET_BY_THE_MODULE})


def content() -> str:
    """The file."""
    return json.dumps(secret_names(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(content(), encoding="utf-8")
