"""What a model achieved: how often answers were right where it agreed with code, and where its
verdict led, by how sure code was.

`faultline eval CASES --model --json` writes these counts; settings name the file
(`model.record`). From few cases little follows, so a share is taken at the lower end of its 95 %
interval.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from faultline.analysis.errors import SettingsError
from faultline.analysis.vocabulary import DecisionPolicy, Frozen
from faultline.bot.answer.shares import Share

LEAST_CASES = 10
"""Fewer answers of a kind say nothing about a model: the cautious numbers hold."""


class RecordBin(Frozen):
    """Cases in which code was at least `least` and less than `below` sure, and what came of them.
    A verdict counts as one that leads where its grounds held and it was sure enough."""

    least: float = Field(ge=0, le=1)
    below: float = Field(ge=0, le=1.01)
    agreed: int = Field(default=0, ge=0)
    agreed_right: int = Field(default=0, ge=0)
    verdicts: int = Field(default=0, ge=0)
    """Verdicts that would lead."""
    verdicts_right: int = Field(default=0, ge=0)
    code_right: int = Field(default=0, ge=0)
    """Of the cases of these verdicts, those in which code was right."""


class ModelRecord(Frozen):
    """The bins of one evaluation."""

    model: str
    bins: tuple[RecordBin, ...]


def read_record(file: Path) -> ModelRecord:
    """Of a file that the evaluation wrote. Raises SettingsError."""
    try:
        document = json.loads(file.read_bytes())
        record = {"model": document["model"], "bins": document["record"]}
        return ModelRecord.model_validate(record)
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
        reason = f"is no output of `faultline eval --model --json` ({type(error).__name__})"
        raise SettingsError("model.record", reason) from error


def policy_of(
    decides: Literal["never", "below_bar", "dissent_only"],
    record: ModelRecord | None,
) -> DecisionPolicy:
    """The policy by what the model achieved."""
    cautious = DecisionPolicy(decides=decides)
    if record is None:
        return cautious
    bar = _bar(record.bins, cautious.bar)
    below = [row for row in record.bins if row.least < bar]
    agreed = _lower_end(
        sum(row.agreed_right for row in below), sum(row.agreed for row in below), cautious.agreed
    )
    overruled = _lower_end(
        sum(row.verdicts_right for row in below),
        sum(row.verdicts for row in below),
        cautious.overruled,
    )
    return cautious.model_copy(update={"bar": bar, "agreed": agreed, "overruled": overruled})


def _bar(bins: Sequence[RecordBin], cautious: float) -> float:
    """The confidence of code up to which verdicts were right no less often than code; 0 where they
    were worse from the beginning."""
    if sum(row.verdicts for row in bins) < LEAST_CASES:
        return cautious
    bar = 0.0
    for row in sorted(bins, key=lambda row: row.least):
        # Above the cautious bar code is right so often that a model has to show that it is better.
        unproved = row.least >= cautious and not row.verdicts
        if row.verdicts_right < row.code_right or unproved:
            break
        bar = row.below
    return min(bar, 1.0)


def _lower_end(right: int, count: int, cautious: float) -> float:
    return round(Share(right, count).low, 2) if count >= LEAST_CASES else cautious
