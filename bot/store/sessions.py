"""Sessions of the store's database."""

from __future__ import annotations

from sqlalchemy import Engine
from sqlalchemy.orm import Session


def reading(engine: Engine) -> Session:
    """One that only reads: on SQLite it waits for no writer."""
    return Session(engine.execution_options(reads_only=True), expire_on_commit=False)
