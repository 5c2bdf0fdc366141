"""What an investigation may take of a model, and what it has taken: rounds, tokens, dollars,
seconds.

The last answer, the report, is always paid for: the others end while there is enough left for it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from analysis.vocabulary import ModelUse
from bot.investigation.model.turns import ModelAnswer, Turn, Usage
from bot.runtime.model_watch import model_used
from bot.settings.model import ModelSettings

CHARACTERS_PER_TOKEN = 3.5
"""Of English and JSON, for servers that do not count.
https://developers.openai.com/api/docs/concepts#tokens says 4; less is assumed, since identifiers
and numbers take more tokens."""
MILLION = 1_000_000
REPORT_SHARE = 0.3
"""Of the seconds, kept for the report."""
REPORT_S = 45.0
"""But not more than these."""


@dataclass(frozen=True)
class ModelLimits:
    """The most that may be taken."""

    rounds: int
    tokens: int
    cost_usd: float
    seconds: float

    @classmethod
    def of(cls, settings: ModelSettings, *, share: float = 1.0) -> ModelLimits:
        """As the settings have it; `share` of the seconds."""
        seconds = settings.investigate_s * share
        return cls(settings.max_rounds, settings.max_tokens, settings.max_cost_usd, seconds)


@dataclass
class Budget:
    """Counts against the limits. `before` are seconds that a worker used before it died."""

    settings: ModelSettings
    limits: ModelLimits
    before: float = 0.0
    rounds: int = 0
    tool_calls: int = 0
    input: int = 0
    cached: int = 0
    output: int = 0
    counted: bool = True
    """Whether the server counted every answer; else the numbers are estimates and are not told."""
    last_input: int = 0
    _began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Taken so far."""
        return self.before + time.monotonic() - self._began

    @property
    def seconds_left(self) -> float:
        """Until the end."""
        return max(0.0, self.limits.seconds - self.seconds)

    @property
    def seconds_for_a_round(self) -> float:
        """Until only the time for the report is left."""
        return max(0.0, self.seconds_left - min(REPORT_S, REPORT_SHARE * self.limits.seconds))

    def count(self, turn: Turn, answer: ModelAnswer) -> Usage:
        """One more answer. Returns what it took, estimated where the server does not say."""
        usage = answer.usage
        if usage is None:
            self.counted = False
            usage = Usage(
                estimated_tokens(turn),
                _tokens(answer.text + "".join(c.arguments for c in answer.calls)),
            )
        self.count_usage(usage)
        model_used(usage.input, usage.cached, usage.output, self.cost_of(usage))
        return usage

    def count_usage(self, usage: Usage) -> None:
        """The same, of a stored answer."""
        self.rounds += 1
        self.input += usage.input
        self.cached += usage.cached
        self.output += usage.output
        self.last_input = usage.input

    def cost_of(self, usage: Usage) -> float | None:
        """US dollars; None where the prices are not set."""
        model = self.settings
        sent = model.price_per_million_input
        if sent is None:
            return None
        kept = sent if model.price_per_million_cached is None else model.price_per_million_cached
        said = sent if model.price_per_million_output is None else model.price_per_million_output
        return (
            (usage.input - usage.cached) * sent + usage.cached * kept + usage.output * said
        ) / MILLION

    @property
    def cost(self) -> float | None:
        """Of everything so far."""
        return self.cost_of(Usage(self.input, self.output, self.cached))

    def reached(self, turn: Turn) -> str | None:
        """The limit that `turn`, and the report after it, would go beyond; None where there is room
        for both."""
        given = max(estimated_tokens(turn), self.last_input)
        both = Usage(2 * given, 2 * min(turn.max_output_tokens, 1500), 0)
        if self.rounds + 1 >= self.limits.rounds:
            return f"limit of {self.limits.rounds} rounds"
        if self.input + self.output + both.input + both.output > self.limits.tokens:
            return f"limit of {self.limits.tokens:,} tokens"
        cost, next_cost = self.cost, self.cost_of(both)
        if cost is not None and next_cost is not None and cost + next_cost > self.limits.cost_usd:
            return f"limit of ${self.limits.cost_usd:.2f}"
        if self.seconds_for_a_round <= 0:
            return f"limit of {self.limits.seconds:g} s"
        return None

    def use(self, ended: str) -> ModelUse:
        """As the report tells it."""
        cost = self.cost if self.counted and self.rounds else None
        return ModelUse(
            name=self.settings.name or "model",
            rounds=self.rounds,
            tool_calls=self.tool_calls,
            input_tokens=self.input if self.counted and self.rounds else None,
            cached_tokens=self.cached if self.counted and self.rounds else None,
            output_tokens=self.output if self.counted and self.rounds else None,
            cost_usd=round(cost, 6) if cost is not None else None,
            seconds=round(self.seconds, 1),
            ended=ended,
        )


def estimated_tokens(turn: Turn) -> int:
    """Tokens that a request will count, roughly."""
    size = len(turn.system) + sum(len(t.description) + len(str(t.parameters)) for t in turn.tools)
    for entry in turn.history:
        size += len(entry.text) + sum(
            len(c.arguments) + len(c.name) for c in getattr(entry, "calls", ())
        )
    return int(size / CHARACTERS_PER_TOKEN)


def _tokens(text: str) -> int:
    return int(len(text) / CHARACTERS_PER_TOKEN)
