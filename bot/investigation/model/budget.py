"""What an investigation may take of a model, and what it has taken: rounds, tokens, dollars,
seconds.

The last answer, the report, is always paid for: the others end while there is enough left for it.

Tokens are the server's own counts. What a request will take is the count of the one before it and
an estimate of what was appended since. tiktoken is not used: it downloads its vocabularies when it
is first used, which an installation without the internet cannot, and they are those of one vendor.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import ModelUse
from faultline.bot.investigation.model.day_budget import DayBudget
from faultline.bot.investigation.model.turns import (
    AssistantMessage,
    Entry,
    ModelAnswer,
    Turn,
    Usage,
)
from faultline.bot.runtime.instrumentation import model_used
from faultline.bot.settings.investigation import ModelSettings

CHARACTERS_PER_TOKEN = 2.9
"""Of our documents, until the server has counted one. 12 recorded investigations had 2.98 to 3.35:
identifiers and numbers take more tokens than English prose."""
FEWEST, MOST = 1.5, 6.0
"""Characters a token that a server's count is believed for; beyond, it counts something else."""
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
    written: int = 0
    counted: bool = True
    """Whether the server counted every answer; else the numbers are estimates and are not shown."""
    last_input: int = 0
    day: DayBudget | None = None
    """What all investigations of a day may take together."""
    _began: float = field(default_factory=time.monotonic)
    _ratio: float = CHARACTERS_PER_TOKEN
    _last: tuple[Turn, Usage] | None = None

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
            answer_length = len(answer.text) + sum(len(c.arguments) for c in answer.calls)
            usage = Usage(self.estimated(turn), int((answer_length + answer.thought) / self._ratio))
        else:
            if usage.input and FEWEST < size_of(turn) / usage.input < MOST:
                self._ratio = size_of(turn) / usage.input
            self._last = turn, usage
        self.count_usage(usage)
        model_used(usage.input, usage.cached, usage.output, self.cost_of(usage))
        return usage

    def count_usage(self, usage: Usage) -> None:
        """The same, of a stored answer."""
        self.rounds += 1
        self.input += usage.input
        self.cached += usage.cached
        self.output += usage.output
        self.written += usage.written
        self.last_input = usage.input

    def estimated(self, turn: Turn) -> int:
        """Tokens that a request will count: what the last one counted, its answer with whatever was
        thought, and an estimate of what was appended since."""
        if self._last is not None:
            before, usage = self._last
            count = len(before.history)
            if turn.history[:count] == before.history and len(turn.history) > count:
                # Skip one entry: it is the last answer, which `usage.output` counts.
                added = sum(size_of_entry(entry) for entry in turn.history[count + 1 :])
                schema = len(str(turn.schema[1])) if turn.schema else 0
                return usage.input + usage.output + int((added + schema) / self._ratio)
        return int(size_of(turn) / self._ratio)

    async def open(self) -> None:
        """Look at the day's budgets before the first request. Raises FaultlineError where one is
        used up."""
        if self.day is None:
            return
        await self.day.look()
        # A conversation that has begun still writes its report.
        if self.day.reached is not None and self.rounds == 0:
            raise FaultlineError(f"{self.day.reached}; the built-in report stands")

    async def pay(self, usage: Usage) -> None:
        """Count an answer toward the day's budgets too, which all workers share."""
        if self.day is not None:
            await self.day.pay(usage.input + usage.output, self.cost_of(usage))

    def cost_of(self, usage: Usage) -> float | None:
        """US dollars; None where the prices are not set."""
        model = self.settings
        sent = model.price_per_million_input
        if sent is None:
            return None
        cached_price = (
            sent if model.price_per_million_cached is None else model.price_per_million_cached
        )
        price_per_million_output = (
            sent if model.price_per_million_output is None else model.price_per_million_output
        )
        put = model.price_per_million_cache_write
        put = sent if put is None else put
        # The input includes what was read from the cache and written to it.
        fresh = usage.input - usage.cached - usage.written
        parts = (
            fresh * sent
            + usage.cached * cached_price
            + usage.written * put
            + usage.output * price_per_million_output
        )
        return parts / MILLION

    @property
    def cost(self) -> float | None:
        """Of everything so far."""
        return self.cost_of(Usage(self.input, self.output, self.cached, self.written))

    def reached(self, turn: Turn) -> str | None:
        """The limit that `turn`, and the report after it, would go beyond; None where there is room
        for both."""
        input_tokens = max(self.estimated(turn), self.last_input)
        # This turn and the report after it, whose prompt is about as long.
        both = Usage(2 * input_tokens, 2 * min(turn.max_output_tokens, 1500), 0)
        if self.rounds + 1 >= self.limits.rounds:
            return f"limit of {self.limits.rounds} rounds"
        if self.input + self.output + both.input + both.output > self.limits.tokens:
            return f"limit of {self.limits.tokens:,} tokens"
        cost, next_cost = self.cost, self.cost_of(both)
        if cost is not None and next_cost is not None and cost + next_cost > self.limits.cost_usd:
            return f"limit of ${self.limits.cost_usd:.2f}"
        if self.seconds_for_a_round <= 0:
            return f"limit of {self.limits.seconds:g} s"
        return self.day.reached if self.day is not None else None

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


def size_of(turn: Turn) -> int:
    """Characters of a request."""
    tools = sum(len(t.name) + len(t.description) + len(str(t.parameters)) for t in turn.tools)
    schema = len(str(turn.schema[1])) if turn.schema else 0
    return len(turn.system) + tools + schema + sum(size_of_entry(e) for e in turn.history)


def size_of_entry(entry: Entry) -> int:
    """Characters of one entry of a history."""
    calls = entry.calls if isinstance(entry, AssistantMessage) else ()
    return len(entry.text) + sum(len(c.arguments) + len(c.name) for c in calls)
