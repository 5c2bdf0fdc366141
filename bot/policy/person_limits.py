"""How much one person may ask for, in one line for them."""

from __future__ import annotations

from datetime import timedelta

from faultline.bot.settings.people import PeopleSettings

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def too_many_investigations(most: int) -> str:
    """Somebody asked for more investigations than they may."""
    return f"You have reached your limit of {most} investigations per hour. Ask again later."


def too_many_mutes(people: PeopleSettings) -> str:
    """Somebody muted more than they may."""
    return f"You have reached your limit of {people.mutes_per_day} mutes per day."
