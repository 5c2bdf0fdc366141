"""Words a diagnosis: by the model that the settings name, otherwise by the built-in writer."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.vocabulary import Alert, Diagnosis, Gap, Report
from bot.answer.writer.built_in import word
from bot.answer.writer.guard import keep_supported
from bot.answer.writer.markdown import to_markdown
from bot.settings.model import ModelSettings

__all__ = ["to_markdown", "write_report"]


async def write_report(
    diagnosis: Diagnosis, alert: Alert, gaps: Sequence[Gap], model: ModelSettings
) -> Report:
    """The guarded report. A model that fails or says what the findings do not is replaced by the
    built-in writer."""
    if model.name is None:
        return keep_supported(word(diagnosis, alert, gaps), diagnosis, alert, gaps=gaps)
    # Loading the client takes most of a second, and only those who named a model need it.
    from bot.investigation.model.wording import word_by_model

    return await word_by_model(diagnosis, alert, gaps, model)
