"""What an investigation may take of a model, and what it has taken: rounds, tokens, dollars,
seconds.

The last answer, the report, is always paid for: the others end while there is enough left for it.

Tokens are the server's own counts. What a request will take is the count of the one before it and
an estimate of what was appended since. tiktoken is not used: it downloads its vocabularies when it
is first used, which an installation without the internet cannot, and they are those of one vendor.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import ModelUse
from faultline.bot.investigation.model.turns import (
    AssistantMessage,
    Entry,
    ModelAnswer,
    ToolCall,
    Turn,
    Usage,
)
from faultline.bot.runtime.instrumentation import model_used
from faultline.bot.runtime.threads import in_store
from faultline.bot.settings.investigation import ModelSettings
from faultline.bot.store.quotas import ModelSpending, Spent

# What all investigations and questions of a day may take of the model, together and for each
# channel. It is counted in the database, so that all workers share it, after each answer.

log = logging.getLogger("faultline.model")


@dataclass
class DayBudget:
    """The budgets of one conversation's day and channel. `look` before the first request."""

    settings: ModelSettings
    spending: ModelSpending
    channel: str = ""
    """"" where there is none: then only the day counts."""
    reached: str | None = None
    """Which budget is used up, as the answer tells it; None while there is something left."""

    async def look(self) -> None:
        """Learn what was taken so far, by all workers."""
        await self._counted(partial(self.spending.spent, self.channel))

    async def pay(self, tokens: int, cost_usd: float | None) -> None:
        """Count an answer. Dollars are None where no prices are set."""
        await self._counted(partial(self.spending.add, self.channel, tokens, cost_usd or 0.0))

    async def _counted(self, count: Callable[[], tuple[Spent, Spent]]) -> None:
        try:
            self._judge(*await in_store(count))
        except (SQLAlchemyError, TimeoutError) as error:
            # An answer that was paid for is not lost because it could not be counted.
            log.warning("the model's budgets could not be counted (%s)", type(error).__name__)

    def _judge(self, day: Spent, channel: Spent) -> None:
        settings = self.settings
        limits = [
            ("for today", day, settings.max_tokens_per_day, settings.max_cost_usd_per_day),
            (
                "for this channel today",
                channel,
                settings.max_tokens_per_channel_day,
                settings.max_cost_usd_per_channel_day,
            ),
        ]
        self.reached = None
        for whose, spent, tokens, cost in limits if self.channel else limits[:1]:
            if tokens is not None and spent.tokens >= tokens:
                self.reached = f"the model's budget {whose} is used up ({tokens:,} tokens)"
            elif cost is not None and spent.cost_usd >= cost:
                self.reached = f"the model's budget {whose} is used up (${cost:.2f})"


def day_budget(settings: ModelSettings, engine: Engine, channel: str | None) -> DayBudget | None:
    """The budgets that the settings name; None where they name none."""
    limits = (
        settings.max_tokens_per_day,
        settings.max_cost_usd_per_day,
        settings.max_tokens_per_channel_day,
        settings.max_cost_usd_per_channel_day,
    )
    if all(limit is None for limit in limits):
        return None
    return DayBudget(settings, ModelSpending(engine), channel or "")


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


# Notices a model that goes in circles: the same call again, two calls in turns, nothing but errors.
#
# It gets a warning, and what it already has is not fetched again. The second time its tools are
# withdrawn, and it reports.

NUDGES = 2
"""With this one the tools are withdrawn."""
ERRORS_IN_A_ROW = 3
"""Rounds."""
ALTERNATING = 4


@dataclass
class LoopGuard:
    """Watches the calls of one conversation, in their order."""

    nudges: int = 0
    _first_positions: dict[str, int] = field(default_factory=dict)
    _calls: list[str] = field(default_factory=list)
    _errors: int = 0
    _why: str | None = None

    @property
    def withdrawn(self) -> bool:
        """Whether the model has lost its tools."""
        return self.nudges >= NUDGES

    def repeated(self, call: ToolCall) -> int | None:
        """The number of the earlier call that was the same; None for a new one. Counts the call."""
        try:
            # The same arguments in another order, or with other blanks, are the same call.
            arguments = json.dumps(json.loads(call.arguments or "{}"), sort_keys=True)
        except (ValueError, RecursionError):
            arguments = call.arguments
        key = f"{call.name} {arguments}"
        self._calls.append(key)
        earlier = self._first_positions.setdefault(key, len(self._calls))
        if earlier == len(self._calls):
            return None
        last = self._calls[-ALTERNATING:]
        # Four calls of the form A, B, A, B.
        alternates = len(last) == ALTERNATING and last[0] == last[2] != last[1] == last[3]
        self._why = "the same two calls in turns" if alternates else "a call that was made before"
        return earlier

    def forget(self) -> None:
        """The history was compacted: what a call brought may be asked for once more."""
        self._first_positions.clear()

    def ended(self, *, error: bool) -> None:
        """How the calls of one answer ended: badly only where every one of them failed."""
        self._errors = self._errors + 1 if error else 0
        if self._errors >= ERRORS_IN_A_ROW:
            self._why = f"{self._errors} rounds of calls in a row that failed"

    def nudge(self) -> str | None:
        """After each round: what to tell the model, None where it gets on."""
        why, self._why = self._why, None
        if why is None:
            return None
        self.nudges += 1
        # From zero, or every further failure would count as another circle.
        self._errors = 0
        return (
            f"Note from the program: {why}. Ask for something else that is still open, or stop "
            f"asking."
        )
