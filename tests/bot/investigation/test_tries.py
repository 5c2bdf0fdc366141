"""What a step is tried again for, and for how long."""

from __future__ import annotations

import errno

import pytest
from obstore.exceptions import GenericError, NotFoundError
from sqlalchemy.exc import OperationalError

from faultline.analysis.errors import ConnectorError
from faultline.bot.investigation import tries


def test_a_store_or_case_store_that_is_away_is_tried_again() -> None:
    again = tries.worth_another()
    assert again(OperationalError("x", {}, Exception("database is locked")))
    assert again(
        GenericError("Generic LocalFileSystem error: No space left on device (os error 28)")
    )
    assert again(OSError(errno.ENOSPC, "No space left on device"))


def test_what_trying_again_does_not_mend_is_not_tried() -> None:
    again = tries.worth_another()
    assert not again(NotFoundError("x"))
    assert not again(OSError(errno.EACCES, "Permission denied"))
    assert not again(ConnectorError("slack", "chat.postMessage", "no"))
    assert not again(ValueError("x"))


def test_a_case_store_that_stays_full_ends_in_an_explanation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tries, "CASES_PATIENCE_S", 0.0)
    again, full = tries.worth_another(), GenericError("No space left on device")
    assert not again(full)
    assert again(OperationalError("x", {}, Exception("database is locked"))), (
        "without the store nothing can be said"
    )
    assert tries.reason(full) == "the case store is full or does not answer (GenericError)"
