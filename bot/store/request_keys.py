"""Idempotency keys: what was asked for under each.

Synchronous, each operation one transaction; callers on an event loop use `in_store`.
"""

from __future__ import annotations

import hashlib
from datetime import datetime

from sqlalchemy import Engine
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from faultline.bot.store.api_tables import RequestKeyRow


def is_same_request(engine: Engine, key: str, request_body: str, now: datetime) -> bool:
    """Remember the request under a key; False where the key was used for another request."""
    digest = hashlib.sha256(request_body.encode("utf-8", "replace")).hexdigest()
    try:
        with Session(engine) as session, session.begin():
            response = session.get(RequestKeyRow, key)
            if response is None:
                session.add(RequestKeyRow(key=key, digest=digest, at=now))
            return response is None or response.digest == digest
    except IntegrityError:  # another process took it at the same moment
        with Session(engine) as session:
            return session.get_one(RequestKeyRow, key).digest == digest
