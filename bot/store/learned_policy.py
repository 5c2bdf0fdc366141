"""The operator's policy with the calls that investigations learned, so that the alerts of a caller
and of what it calls are of one incident where nobody has written a catalogue."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from faultline.analysis.kinds.place_names import place_in
from faultline.bot.policy.admission import Policy
from faultline.bot.policy.relation import with_rule_labels
from faultline.bot.policy.services import ServiceTopology
from faultline.bot.policy.values import Arrival
from faultline.bot.store.memory import LearnedCalls
from faultline.bot.store.visibility import ALL, visible_to_teams

FRESH_S = 2.0
"""Calls are read again after this: the alerts of one incident arrive within seconds of each
other."""
MAX_PLACES = 50
"""Whose calls are remembered: in a storm each alert would read them."""

log = logging.getLogger("faultline.store")

PlaceOfTeam = tuple[str, tuple[tuple[str, str], ...]]


class PolicyWithCalls:
    """Kept for the process. `configured` is the policy of the settings."""

    def __init__(self, engine: Engine, configured: Policy) -> None:
        self.configured = configured
        self._engine = engine
        self._topologies: dict[PlaceOfTeam, tuple[float, ServiceTopology]] = {}

    def at(self, arrivals: Sequence[Arrival], now: datetime) -> Policy:
        """The policy for alerts that are accepted together. Alerts of several places or teams are
        related by the catalogue alone."""
        policy = self.configured
        if policy.groups == "off" or policy.settings.investigation.learned_calls_days <= 0:
            return policy
        places = {self._place(arrival) for arrival in arrivals}
        if len(places) != 1:
            return policy
        (place,) = places
        read_at, topology = self._topologies.get(place, (-FRESH_S, policy.topology))
        if time.monotonic() - read_at >= FRESH_S:
            topology = self._read(place, now)
            if len(self._topologies) >= MAX_PLACES:
                self._topologies.clear()
            self._topologies[place] = (time.monotonic(), topology)
        return replace(policy, topology=topology)

    def forget(self) -> None:
        """Read the calls again, the next time they are needed."""
        self._topologies.clear()

    def _place(self, arrival: Arrival) -> PlaceOfTeam:
        policy = self.configured
        team = policy.team(arrival.alert, policy.channel(arrival)) if policy.apart else ""
        return team, tuple(sorted(place_in(with_rule_labels(arrival.alert)).items()))

    def _read(self, place: PlaceOfTeam, now: datetime) -> ServiceTopology:
        policy = self.configured
        team, names = place
        since = now - timedelta(days=policy.settings.investigation.learned_calls_days)
        calls = LearnedCalls(self._engine, visible_to_teams([team]) if policy.apart else ALL)
        try:
            learned = calls.of_place(dict(names), since=since)
        # What was learned is a help: an alert is accepted without it.
        except SQLAlchemyError as error:
            log.warning("cannot read learned calls: %s", type(error).__name__)
            return policy.topology
        return policy.topology.with_calls((call.caller, call.callee) for call in learned)
