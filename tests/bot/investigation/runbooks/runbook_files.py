"""Directories of runbooks written by hand, and alerts that call for them."""

from __future__ import annotations

import textwrap
from datetime import UTC, datetime
from pathlib import Path

from faultline.analysis.vocabulary import Alert, Scope, Window

AT = datetime(2026, 3, 2, 2, 10, tzinfo=UTC)
"""A Monday."""


def write(directory: Path, **files: str) -> str:
    """Write `name`.md for each; `__` in a name is a slash. Gives the directory as settings name
    it."""
    for name, content in files.items():
        path = directory / f"{name.replace('__', '/')}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(content).lstrip(), encoding="utf-8")
    return str(directory)


def alert(
    title: str = "High error rate on checkout", service: str | None = "checkout", **more: object
) -> Alert:
    """An alert at AT."""
    return Alert.model_validate(
        {"source": "prometheus", "title": title, "started_at": AT, "service": service, **more}
    )


def scope(*services: str, job: str | None = None) -> Scope:
    """The hour after AT."""
    return Scope(incident=Window(start=AT, end=AT.replace(hour=3)), services=services, job=job)
