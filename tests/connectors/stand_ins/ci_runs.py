"""What the CI services of the tests ran: checkout was built on main and deployed to production four
minutes before the onset; a later build of main failed."""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.connectors.conftest import ONSET

COMMIT, BROKEN = (
    "9f2c1d7e5b3a48f0c6d1e2f3a4b5c6d7e8f90123",
    "77aa1d7e5b3a48f0c6d1e2f3a4b5c6d7e8f90456",
)
DEPLOYED = ONSET - timedelta(minutes=4)
BUILT = ONSET - timedelta(minutes=12)
FAILED = ONSET + timedelta(minutes=3)
LONG_AGO = ONSET - timedelta(days=9)
MESSAGE = "Wait 50 ms for a connection\n\nIt was 5 s."


def stamp(at: datetime) -> str:
    """ISO 8601 in UTC."""
    return f"{at:%Y-%m-%dT%H:%M:%S.000Z}"
