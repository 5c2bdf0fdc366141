"""What all investigations and questions of a day may take of the model, together and for each
channel. It is counted in the database, so that all workers share it, after each answer."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from faultline.bot.runtime.threads import in_store
from faultline.bot.settings.investigation import ModelSettings
from faultline.bot.store.quotas import ModelSpending, Spent

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
