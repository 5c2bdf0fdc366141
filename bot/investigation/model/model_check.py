"""`faultline model check`: what the configured server can do, and what follows from it, on one
screen.
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
from faultline.bot.investigation.model.budget import Budget, ModelLimits
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
from faultline.bot.runtime.components import BackgroundLoop
from faultline.bot.settings.investigation import ModelSettings

# The probe: what an endpoint says it can do, tried with two small requests. What it learns is
# remembered.
#
# A server that said it can and does not is met again at run time: then the conversation goes on
# with less.

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


NAMES = {
    "responses": "OpenAI Responses",
    "chat": "OpenAI chat completions",
    "anthropic": "Anthropic Messages",
}
SMALL_CONTEXT = 16_000
"""Tokens. The document and the instructions of a usual investigation take half of them."""
TYPICAL = Usage(input=96_000, output=6_000, cached=64_000)
"""Of an investigation of six rounds: a document of 8,000 tokens with instructions and tools, and
3,000 tokens of results in each round, all of it sent again in the next."""
LABEL = 16


def screen(probed: Probed, settings: ModelSettings) -> str:
    """All lines; each says what was found, then what follows from it."""
    if probed.abilities.streaming:
        streaming = "yes: a response that breaks off is used as far as it came"
    else:
        streaming = (
            "no: a response that breaks off is lost; model.timeout_s must be longer than one takes"
        )
    if probed.abilities.usage:
        counts = "the server's own"
    else:
        counts = "none: limits use estimates, and no cost is shown"
    if not probed.abilities.tools or not probed.calls_tools:
        parallel = "-"
    elif probed.calls_together:
        parallel = "yes: calls of one round run side by side"
    else:
        parallel = "no: one call a round, so an investigation takes more rounds"
    listed = {
        True: "listed by the server",
        False: "NOT listed by the server: check model.name",
        None: "the server has no list of models",
    }
    rows = [
        ("server", probed.where),
        ("model", f"{probed.name} ({listed[probed.listed]})"),
        ("API", NAMES[probed.abilities.api]),
        ("tools", _tools(probed)),
        ("parallel calls", parallel),
        ("schema", _schema(probed)),
        ("streaming", streaming),
        ("token counts", counts),
        ("cache", _cache(probed)),
        ("thinking", _thinking(probed, settings)),
        ("context", _context(probed, settings)),
        ("price", _price(probed, settings)),
        ("limits", _limits(settings)),
    ]
    return "\n".join(f"{name:<{LABEL}}{text}" for name, text in rows)


def _tools(probed: Probed) -> str:
    if not probed.abilities.tools:
        return "no: the model only words the report, in one request"
    if not probed.calls_tools:
        return (
            "taken, but it did not call the tool it was asked to call: set model.investigates = "
            "false, or a model that calls tools"
        )
    return "yes: it can investigate"


def _schema(probed: Probed) -> str:
    able = probed.abilities
    if not probed.keeps_schema:
        return "not kept: it is asked once more in words, and the built-in report may stand"
    if able.schema == "schema":
        return "kept: the report has its form"
    if able.schema == "json":
        by_tool = able.api == "anthropic"
        return f"{'as the arguments of a tool' if by_tool else 'JSON only'}: the form was kept"
    return "in words only: the form was kept"


def _cache(probed: Probed) -> str:
    usage = probed.usage
    if usage is None:
        return "unknown: the server counts no tokens"
    marked = "; the prompt's stable part is marked for it" if probed.abilities.cache_marks else ""
    if usage.cached:
        return f"yes: {usage.cached:,} of {usage.input:,} tokens came from it{marked}"
    return f"nothing of {usage.input:,} tokens came from it, as is usual for so few{marked}"


def _thinking(probed: Probed, settings: ModelSettings) -> str:
    effort = settings.reasoning_effort
    phrase = ""
    if effort is not None:
        taken = {
            "asked": f"effort {effort}",
            "budget": f"effort {effort}, as a number of tokens",
            "off": f"the server does not take reasoning_effort = {effort}",
        }
        phrase = f"{taken[probed.abilities.effort]}; "
    if not probed.carried:
        return f"{phrase}nothing has to be carried back"
    names = ", ".join(probed.carried)
    if not probed.abilities.carries:
        return f"{phrase}sends {names}, but does not take it back: it is left out"
    return f"{phrase}sends {names}, which is kept and carried back"


def _context(probed: Probed, settings: ModelSettings) -> str:
    if probed.context is None:
        return (
            "not told: learned when the server refuses. Ollama cuts without refusing: set "
            "model.context_tokens"
        )
    source = "by the settings" if settings.context_tokens else "by the server"
    context = f"{probed.context:,} tokens {source}: longer conversations are compacted"
    if probed.context < SMALL_CONTEXT:
        return f"{context}. That is little; give it at least 32,000"
    return context


def _price(probed: Probed, settings: ModelSettings) -> str:
    budget = Budget(settings, ModelLimits.of(settings))
    # Without counts nothing shows that the cache is used, so assume that it is not.
    cached = TYPICAL.cached if probed.abilities.usage else 0
    usual = budget.cost_of(Usage(TYPICAL.input, TYPICAL.output, cached))
    if usual is None:
        return "unknown: set model.price_per_million_input and the others"
    return (
        f"about ${usual:.2f} for an investigation of {TYPICAL.input + TYPICAL.output:,} tokens, at "
        f"most ${settings.max_cost_usd:.2f}"
    )


def _limits(settings: ModelSettings) -> str:
    named = [
        (settings.max_tokens_per_day, "{:,} tokens a day"),
        (settings.max_cost_usd_per_day, "${:.2f} a day"),
        (settings.max_tokens_per_channel_day, "{:,} tokens a day and channel"),
        (settings.max_cost_usd_per_channel_day, "${:.2f} a day and channel"),
    ]
    phrase = f"{settings.max_rounds} rounds, {settings.max_tokens:,} tokens an investigation"
    return ", ".join([phrase, *(form.format(limit) for limit, form in named if limit is not None)])
