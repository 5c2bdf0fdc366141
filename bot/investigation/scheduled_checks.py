"""What a worker looks at by the clock: deploys that programs asked about, and watched services.

Of several workers one takes each look: it claims the row first. A look that is taken twice, because
a worker died in it, changes nothing twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from faultline.analysis.deploys.question import Look
from faultline.analysis.deploys.verdict import Decision, DeployVerdict, SignalCheck
from faultline.analysis.vocabulary import Alert
from faultline.bot.policy.values import Arrival, Delivery, DeployToCheck, due_at
from faultline.bot.runtime.components import BackgroundLoop
from faultline.bot.settings import Settings
from faultline.bot.settings.alerts import WatchSettings
from faultline.bot.store.changes import DeployChecks, StoredCheck, Watches, WatchState
from faultline.bot.store.store import Store
from faultline.connectors.shared.contract.base import Connector

LOOK_EVERY_S = 5.0
SOURCE = "watch"
DAY = timedelta(days=1)

log = logging.getLogger("faultline.checks")


class DeployCheckLoop(BackgroundLoop):
    """Takes the looks at deploys that are due, one after the other."""

    def __init__(
        self, store: Store, connectors: Sequence[Connector], *, every_s: float = LOOK_EVERY_S
    ) -> None:
        super().__init__("deploy checks", every_s=every_s)
        self._checks = DeployChecks(store.engine)
        self._connectors = connectors

    def turn(self) -> bool:
        """One look, if one is due."""
        claim = self._checks.claim(datetime.now(UTC))
        if claim is None:
            return False
        deploy = DeployToCheck.model_validate(claim.request)
        looks = deploy.looks(datetime.now(UTC), claim.looks_done)
        look, later = looks[0], looks[1:]
        verdict = _verdict(deploy, look, self._connectors)
        self._keep(claim, look, later, verdict)
        return True

    def _keep(
        self,
        stored_check: StoredCheck,
        look: Look,
        later: Sequence[Look],
        verdict: DeployVerdict | None,
    ) -> None:
        is_over = not later or (verdict is not None and verdict.final)
        verdict_json = stored_check.verdict if verdict is None else verdict.model_dump(mode="json")
        self._checks.record_look(
            stored_check.id, look.number, verdict_json, None if is_over else due_at(later[0])
        )


class WatchLoop(BackgroundLoop):
    """Looks at the watched services when they are due. What lasts becomes an alert."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        connectors: Sequence[Connector],
        *,
        every_s: float = LOOK_EVERY_S,
    ) -> None:
        super().__init__("watches", every_s=every_s)
        self._watched: Mapping[str, WatchSettings] = settings.watch
        self._store, self._connectors = store, connectors
        self._states = Watches(store.engine)

    def turn(self) -> bool:
        """One look, if one is due."""
        now = datetime.now(UTC)
        self._states.keep(self._watched, now)
        state = self._states.claim(self._watched, now)
        if state is None:
            return False
        self._look(state, self._watched[state.name], now)
        return True

    def _look(self, state: WatchState, watch: WatchSettings, now: datetime) -> None:
        deploy, look = deploy_and_look(watch, state.name, now)
        verdict = _verdict(deploy, look, self._connectors)
        is_worse = verdict is not None and verdict.decision is Decision.ROLL_BACK
        in_a_row = state.worse_in_a_row + 1 if is_worse else 0
        alerted = state.alerted
        if verdict is not None and in_a_row >= watch.times and not alerted:
            # Before the state: a worker that dies in between alerts again, under the same id.
            self._store.accept_all([arrival_of(state, watch, verdict, "firing")])
            alerted = True
        # Missing data is no sign of recovery.
        elif verdict is not None and not is_worse and alerted and not verdict.missing:
            self._store.accept_all([arrival_of(state, watch, verdict, "resolved")])
            alerted = False
        self._states.record_look(
            state,
            # What could not be asked says nothing about the service.
            worse_in_a_row=state.worse_in_a_row if verdict is None else in_a_row,
            alerted=alerted,
            headline=verdict.headline if verdict is not None else "could not be looked at",
            now=now,
            every=timedelta(minutes=watch.every_minutes),
        )


def deploy_and_look(watch: WatchSettings, name: str, now: datetime) -> tuple[DeployToCheck, Look]:
    """The last minutes as if something had been deployed before them. All looks of a day share
    what one deploy may spend."""
    length = timedelta(minutes=watch.window_minutes)
    deploy = DeployToCheck(
        service=watch.service or name,
        deployed_at=now - length,
        wait=length,
        warm_up=timedelta(0),
        places=watch.places,
    )
    spends = timedelta(minutes=watch.every_minutes) / DAY
    look = Look(number=1, of=1, start=now - length, end=now, spends=spends)
    return deploy, look


def arrival_of(
    state: WatchState, watch: WatchSettings, verdict: DeployVerdict, status: str
) -> Arrival:
    """The alert, as an alert source would hand it over. The same look is the same delivery."""
    worse = _worse(verdict)
    alert = Alert.model_validate(
        {
            "source": SOURCE,
            "id": f"{state.name}:{state.due_at.isoformat()}",
            "title": _title(verdict),
            "started_at": verdict.judged_until,
            "status": status,
            "service": verdict.service,
            "signal": worse.signal if worse is not None else None,
            "severity": watch.severity,
            "labels": {**watch.places, "fingerprint": f"watch:{state.name}"},
        }
    )
    delivery = Delivery(SOURCE, f"{state.name}:{status}:{state.due_at.isoformat()}")
    return Arrival(alert=alert, delivery=delivery)


def _title(verdict: DeployVerdict) -> str:
    worse = _worse(verdict)
    sentences = [*([worse.sentence] if worse is not None else []), *verdict.rollout]
    return f"{verdict.service}: {sentences[0]}" if sentences else verdict.headline


def _worse(verdict: DeployVerdict) -> SignalCheck | None:
    return next((check for check in verdict.checks if check.worse and not check.over), None)


def _verdict(
    deploy: DeployToCheck, look: Look, connectors: Sequence[Connector]
) -> DeployVerdict | None:
    """The verdict; None where it failed, which the log says."""
    # Late: a worker that watches nothing does not load the statistics.
    from faultline.bot.investigation.checking_deploys import check_deploy

    try:
        return asyncio.run(check_deploy(deploy, look, connectors))
    except Exception as error:  # noqa: BLE001  the edge of a look: the next one comes all the same
        log.warning("a check could not be made (%s)", type(error).__name__)
        return None
