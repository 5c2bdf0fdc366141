"""`faultline model check`: what the configured server can do, and what follows from it, on one
screen."""

from __future__ import annotations

from faultline.bot.investigation.model.budget import Budget, ModelLimits
from faultline.bot.investigation.model.probe import Probed
from faultline.bot.investigation.model.turns import Usage
from faultline.bot.settings.investigation import ModelSettings

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
