"""What an endpoint can do: assumed until it refuses, remembered for the life of the process.

A server says in its own words what it does not take. The words decide what is left out of the next
try; where they name nothing, it is what servers lack most often.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from faultline.bot.investigation.model.turns import AssistantMessage, Entry, Turn
from faultline.bot.settings.investigation import ModelSettings

Ability = Literal[
    "stream_usage",
    "effort",
    "encrypted",
    "carries",
    "cache_marks",
    "tools_beside_schema",
    "schema",
    "json",
    "tools",
    "limit_name",
    "streaming",
]
Api = Literal["responses", "chat", "anthropic"]
LimitName = Literal["max_tokens", "max_completion_tokens"]

_UNKNOWN_FIELD = (
    "extra inputs",
    "extra fields",
    "extra_forbidden",
    "additional propert",
    "unknown field",
    "unknown parameter",
    "unrecognized",
    "is unsupported",
)
"""How strict servers speak of a field that they do not know, where they do not name it."""
_TOOL_WORDS = ("tool", "function call", "function_call", "jinja")
_SCHEMA_WORDS = (
    "schema",
    "response_format",
    "grammar",
    "guided",
    "format",
    "structured",
    "output_config",
)
_WORDS: Mapping[Ability, tuple[str, ...]] = {
    "stream_usage": ("stream_options", "include_usage"),
    "effort": ("effort", "thinking", "reasoning.", "reasoning is", "reasoning param"),
    "encrypted": ("encrypted", "'include'", '"include"', "include["),
    "carries": ("reasoning", "extra_content", "thought", "signature", "phase"),
    "cache_marks": ("cache_control", "cache control"),
    "limit_name": ("max_tokens", "max_completion_tokens"),
    "tools_beside_schema": _TOOL_WORDS,
    "tools": _TOOL_WORDS,
    "schema": _SCHEMA_WORDS,
    "json": _SCHEMA_WORDS,
    "streaming": ("stream",),
}
"""How servers speak of what they do not take: vLLM names `--enable-auto-tool-choice`, llama.cpp
`--jinja` and "grammar" (with tools), OpenAI the parameter."""
REFUSED = frozenset({400, 404, 405, 415, 422, 500, 501})
"""Statuses that may mean "I do not take this": llama.cpp answers 500 to tools without its `--jinja`
option."""

AMBIGUOUS_STATUSES = frozenset({404, 500})
"""They mean it only where the server's words name something that the request holds."""


@dataclass(frozen=True)
class Abilities:
    """What is asked of the endpoint."""

    tools: bool = True
    tools_beside_schema: bool = True
    """Whether the tools may stay in a request that asks for a schema: then the server's cache of
    the prompt holds."""
    schema: Literal["schema", "json", "words"] = "schema"
    streaming: bool = True
    stream_usage: bool = True
    limit_name: LimitName = "max_tokens"
    usage: bool | None = None
    """Whether answers came with token counts; None before the first."""
    effort: Literal["asked", "budget", "off"] = "asked"
    """How a reasoning effort is asked for: by its name, as a number of tokens (older models of
    Anthropic), or not at all."""
    encrypted: bool = False
    """Whether the reasoning is asked for in encrypted form, to be sent back (Responses API)."""
    carries: bool = True
    """Whether what the server sent beside text and calls is sent back."""
    cache_marks: bool = False
    """Whether the parts of a prompt that stay are marked for the server's cache (Anthropic)."""
    context: int | None = None
    """Tokens of prompt and answer together; None where the server did not say."""
    api: Api = "chat"

    def offers_tools(self, turn: Turn) -> bool:
        """Whether the request names the tools of the turn."""
        if not turn.tools or not self.tools:
            return False
        return turn.schema is None or self.tools_beside_schema

    def without(self, ability: Ability) -> Abilities:
        """The same with one thing less."""
        if ability == "schema":
            return replace(self, schema="json")
        if ability == "json":
            return replace(self, schema="words")
        if ability == "limit_name":
            # Servers know the limit by one name or the other.
            newer = self.limit_name == "max_tokens"
            return replace(self, limit_name="max_completion_tokens" if newer else "max_tokens")
        if ability == "effort":
            by_budget = self.api == "anthropic" and self.effort == "asked"
            return replace(self, effort="budget" if by_budget else "off")
        switches: dict[str, bool] = {ability: False}
        return replace(self, **switches)  # type: ignore[arg-type]

    def summary(self) -> str:
        """In a few words, for `faultline check`."""
        schema = {
            "schema": "JSON schema",
            "json": "JSON without a schema",
            "words": "JSON only when asked in words",
        }
        parts = [
            "tools"
            if self.tools
            else "no tools (the model words the report, it cannot ask for more)",
            schema[self.schema],
            "streaming" if self.streaming else "no streaming",
        ]
        if self.usage is not None:
            parts.append(
                "token counts"
                if self.usage
                else "no token counts (limits use estimates, cost is unknown)"
            )
        return ", ".join(parts)


def to_leave_out(turn: Turn, able: Abilities, status: int, message: str) -> Ability | None:
    """What to give up of this request, as the server's words (in lower case) name it, else what is
    lacked most often.

    None where the status means something else, or where one that may mean anything comes with words
    that name nothing.
    """
    if status not in REFUSED:
        return None
    candidates = _candidates(turn, able)
    likely = [a for a in candidates if any(word in message for word in _WORDS[a])]
    if not likely and any(words in message for words in _UNKNOWN_FIELD):
        # Only these two send fields that another server of the same API may not know.
        likely = [a for a in candidates if a in ("carries", "cache_marks")]
    if not likely and status not in AMBIGUOUS_STATUSES:
        likely = candidates
    return likely[0] if likely else None


def _candidates(turn: Turn, able: Abilities) -> list[Ability]:
    """What the request asks for that a server may lack, what is missed least first."""
    chat, form = able.api == "chat", turn.schema is not None
    tools = able.offers_tools(turn)
    uses: tuple[tuple[Ability, bool], ...] = (
        ("stream_usage", chat and able.streaming and able.stream_usage),
        ("effort", bool(turn.effort) and able.effort != "off"),
        ("encrypted", able.encrypted),
        ("carries", able.carries and any(_carries(entry) for entry in turn.history)),
        ("cache_marks", able.cache_marks),
        ("tools", tools and not form),
        ("tools_beside_schema", tools and form),
        ("schema", form and able.schema == "schema"),
        ("json", form and able.schema == "json"),
        ("streaming", able.streaming),
        ("limit_name", chat),
    )
    return [ability for ability, is_used in uses if is_used]


def _carries(entry: Entry) -> bool:
    return isinstance(entry, AssistantMessage) and entry.carried is not None


# For one process only: after a restart, an upgraded server is asked for everything again.
_ABILITIES: dict[tuple[str | None, str | None, str | None], Abilities] = {}


def remembered_abilities(settings: ModelSettings) -> Abilities:
    """What this process knows of the endpoint."""
    api = api_of(settings)
    fresh = Abilities(
        # Self-hosted servers know the limit by its old name, the hosted API by its new one.
        limit_name="max_tokens" if settings.base_url else "max_completion_tokens",
        encrypted=api == "responses",
        cache_marks=api == "anthropic",
        api=api,
    )
    return _ABILITIES.get(_key(settings), fresh)


def api_of(settings: ModelSettings) -> Api:
    """Which API the endpoint is spoken to in."""
    return settings.api or ("chat" if settings.base_url else "responses")


def remember(settings: ModelSettings, abilities: Abilities) -> None:
    """For the next request of this process."""
    _ABILITIES[_key(settings)] = abilities


def forget_all() -> None:
    """As if the process had just started."""
    _ABILITIES.clear()


def _key(settings: ModelSettings) -> tuple[str | None, str | None, str | None]:
    return settings.base_url, settings.name, settings.api
