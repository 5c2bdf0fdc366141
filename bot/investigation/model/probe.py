"""The probe: what an endpoint says it can do, tried with two small requests. What it learns is
remembered.

A server that said it can and does not is met again at run time: then the conversation goes on with
less.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.bot.investigation.model.abilities import Abilities
from faultline.bot.investigation.model.client import ModelClient
from faultline.bot.investigation.model.model_api import address_of
from faultline.bot.investigation.model.toolbox import safe_call
from faultline.bot.investigation.model.turns import (
    AssistantMessage,
    Carried,
    Entry,
    ModelAnswer,
    ToolResult,
    ToolSpec,
    Turn,
    Usage,
    UserMessage,
    items,
    mapping,
)
from faultline.bot.runtime.background_loop import BackgroundLoop
from faultline.bot.settings.model import ModelSettings

log = logging.getLogger("faultline.model")

PROBE_TOKENS = 600
"""Enough for a model that thinks before it answers."""
PROBE_S = 60.0
SYSTEM = "You test a connection. Do exactly what is asked, in as few words as possible."
_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"word": {"type": "string"}},
    "required": ["word"],
    "additionalProperties": False,
}
ECHO = ToolSpec("echo", "Gives back a word.", _PARAMETERS)
WORD, OTHER = "lantern", "harbor"
CARRIED_KINDS = ("reasoning", "thinking", "redacted_thinking")


@dataclass(frozen=True)
class Probed:
    """What was found. `carried` names what the server sent beside text and calls, and took back;
    `usage` is that of the second request, whose beginning the server had seen before."""

    name: str
    where: str
    listed: bool | None
    abilities: Abilities
    calls_tools: bool
    keeps_schema: bool
    calls_together: bool = False
    carried: tuple[str, ...] = ()
    usage: Usage | None = None
    context: int | None = None

    @property
    def line(self) -> str:
        """In one line, for `faultline check`."""
        parts = [f"{self.name} at {self.where}", self.abilities.summary()]
        if self.listed is False:
            parts.append("the server does not list it")
        if self.abilities.tools and not self.calls_tools:
            parts.append("it did not call the tool it was asked to call")
        if not self.keeps_schema:
            parts.append("it did not keep to the schema of its answer")
        return "; ".join(parts)


async def probe(settings: ModelSettings, *, within_s: float = PROBE_S) -> Probed:
    """Try the endpoint: two calls of a tool, then an answer of a schema after their results, with
    everything carried back. Raises ConnectorError or BudgetExceeded when it does not answer at
    all."""
    name, where = settings.name or "", address_of(settings)
    async with ModelClient(settings) as client:
        listed = await client.has_model()
        # Elsewhere, a model that is not listed may still answer, so try it.
        if listed is False and settings.base_url is None:
            vendor = "anthropic" if settings.api == "anthropic" else "openai"
            raise ConnectorError(vendor, "models", f"there is no model {name}", status=404)
        user_message = UserMessage(
            f"Call the tool `echo` twice in one answer: with the word {WORD}, and with {OTHER}."
        )
        first = await client.answer(
            Turn(SYSTEM, [user_message], PROBE_TOKENS, tools=[ECHO]), within_s=within_s
        )
        called = [c for c in first.calls if c.name == ECHO.name]
        carried = Carried(client.reader, first.carried) if first.carried else None
        calls = tuple(safe_call(c) for c in first.calls)
        history: list[Entry] = [user_message, AssistantMessage(first.text, calls, carried)]
        # Every call needs a result, whatever tool it names.
        history += [ToolResult(c.id, WORD) for c in first.calls]
        history.append(UserMessage("Now answer with the word."))
        turn = Turn(SYSTEM, history, PROBE_TOKENS, tools=[ECHO], schema=("Echo", _PARAMETERS))
        last = await client.answer(turn, within_s=within_s)
        return Probed(
            name,
            where,
            listed,
            client.abilities,
            calls_tools=any(WORD in c.arguments for c in called),
            keeps_schema=_keeps(last),
            calls_together=len(called) > 1,
            carried=_names(first.carried),
            usage=last.usage,
            context=client.context,
        )


def _names(carried: Mapping[str, Any]) -> tuple[str, ...]:
    """Of what a server sent in an answer, by any of the APIs (`Carried.fields`)."""
    mappings = [str(name) for name in mapping(carried.get("message"))]
    mappings += [str(name) for call in items(carried.get("calls")) for name in mapping(call)]
    parts = [*items(carried.get("items")), *items(carried.get("blocks"))]
    mappings += [str(part["type"]) for part in parts if part["type"] in CARRIED_KINDS]
    return tuple(dict.fromkeys(mappings))


def _keeps(answer: ModelAnswer) -> bool:
    try:
        fields = json.loads(answer.text[answer.text.find("{") : answer.text.rfind("}") + 1])
    except ValueError:
        return False
    return isinstance(fields, dict) and set(fields) == {"word"}


class ModelProbe(BackgroundLoop):
    """Probes once, keeping nobody waiting; what is found is in the log and is remembered."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__("model probe", every_s=None)
        self._settings = settings

    def turn(self) -> bool:
        """Probe. Investigations try for themselves where that fails."""
        try:
            probed = asyncio.run(probe(self._settings))
            log.info("model: %s", probed.line)
        except FaultlineError as error:
            log.warning("model: %s", error)
        # The client's libraries raise their own errors, which name no secret of ours.
        except Exception as error:  # noqa: BLE001
            log.warning("model: the probe failed (%s)", type(error).__name__)
        return False

    def stop(self) -> None:
        """Do not wait for the endpoint: nothing depends on its answer."""
        self.stop_soon()
