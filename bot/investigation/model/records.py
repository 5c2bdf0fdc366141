"""What a conversation leaves in the case folder, below one folder of it, and how a worker that
takes over reads it.

transcript.jsonl stays. observations.json and placeholders.json are for going on; the latter, which
says what the placeholders of personal data stand for, is emptied when the conversation has ended.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError

from faultline.analysis.case.folder import json_bytes
from faultline.analysis.case.observations import OBSERVATIONS_FILE, Observations
from faultline.analysis.errors import EvidenceError
from faultline.bot.answer.writer.redaction import Redactor
from faultline.bot.investigation.model.model_session import ModelSession
from faultline.bot.investigation.model.transcript import NAME as TRANSCRIPT
from faultline.bot.investigation.model.transcript import Transcript, read_transcript
from faultline.bot.runtime.threads import in_thread

PLACEHOLDERS = "placeholders.json"


class Placeholders(BaseModel):
    """The state of a redactor."""

    originals: dict[str, str] = {}
    counts: dict[str, int] = {}


@dataclass
class Records:
    """The files of one conversation. `resumed` says whether there were some."""

    model_session: ModelSession
    transcript: Transcript
    redactor: Redactor
    resumed: bool = False
    _stored: dict[str, Any] = field(default_factory=dict)
    """Observations by id, with placeholders. They quote log lines, and nothing personal stays in
    what is kept of a conversation."""

    async def save(self) -> None:
        """Store the conversation so far."""
        observations = await in_thread(self._observations)
        # The transcript comes last, because it refers to what the other two hold.
        files = {
            PLACEHOLDERS: json.dumps(self.redactor.state()).encode("utf-8", "replace"),
            OBSERVATIONS_FILE: observations,
            TRANSCRIPT: self.transcript.as_bytes(),
        }
        for name, content in files.items():
            await in_thread(self.model_session.keep, f"{self.model_session.store}/{name}", content)

    def _observations(self) -> bytes:
        for observation in self.model_session.observations:
            if observation.id not in self._stored:
                self._stored[observation.id] = self.redactor.redact_all(
                    observation.model_dump(mode="json")
                )
        return json_bytes({"findings": list(self._stored.values())})

    async def close(self) -> None:
        """What the placeholders stood for is forgotten."""
        await in_thread(
            self.model_session.keep, f"{self.model_session.store}/{PLACEHOLDERS}", b"{}"
        )


async def open_records(model_session: ModelSession) -> Records:
    """The records of a conversation, taken up where an earlier worker left them; from the start if
    they are broken."""
    folder = model_session.folder / model_session.store
    try:
        stored = (folder / TRANSCRIPT).read_bytes()
        transcript = read_transcript(stored)
        placeholders = Placeholders.model_validate_json((folder / PLACEHOLDERS).read_bytes())
        redactor = Redactor.resumed(placeholders.originals, placeholders.counts)
        stored_rows = json.loads((folder / OBSERVATIONS_FILE).read_bytes())
        observations = Observations.model_validate(_revealed(stored_rows, redactor))
        evidence_names = [line.asked for line in transcript.lines if line.asked]
        model_session.observations = list(observations.findings)
        for name in evidence_names:
            await model_session.restore(name)
    except FileNotFoundError:
        return Records(model_session, Transcript(), Redactor())
    except (EvidenceError, ValidationError, ValueError, OSError):
        # `restore` may have merged some of the evidence already.
        model_session.start_over()
        return Records(model_session, Transcript(), Redactor())
    return Records(
        model_session,
        transcript,
        redactor,
        resumed=bool(transcript.lines),
    )


def _revealed(value: Any, redactor: Redactor) -> Any:
    """A JSON value with every placeholder turned back."""
    if isinstance(value, str):
        return redactor.reveal(value)
    if isinstance(value, dict):
        return {_revealed(k, redactor): _revealed(v, redactor) for k, v in value.items()}
    return [_revealed(v, redactor) for v in value] if isinstance(value, list) else value
