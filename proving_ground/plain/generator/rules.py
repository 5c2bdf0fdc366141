"""The alert rule that fires on an incident, as somebody would have written it before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from proving_ground.plain.generator.families import request_expression
from proving_ground.plain.generator.flow import Floats
from proving_ground.plain.generator.incident import HOURS, Incident, draw
from proving_ground.plain.generator.kinds import Kind
from proving_ground.plain.generator.system import MONITORED, Service, generator_for

FOR_S = 120.0
"""`for` of the rules."""
ATTEMPTS = 12
THRESHOLDS = {
    "errors": (0.01, 0.02, 0.05, 0.1, 0.2),
    "latency": (0.1, 0.15, 0.2, 0.25, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5),
    "lag": (100, 500, 1000, 2500, 5000, 10000, 50000),
}


@dataclass(frozen=True)
class AlertRule:
    """A rule of Prometheus. `for_s` is how long its expression has to hold."""

    name: str
    expression: str
    summary: str
    for_s: float = FOR_S


class NoSignal(Exception):
    """The incident moves nothing that a rule would fire on."""


def make_incidents(
    kind: Kind, seed: int, *, hours: float = HOURS
) -> Iterator[tuple[Incident, AlertRule]]:
    """Incidents of a kind and a seed with a rule that ought to fire. Its expression may hold for
    nothing all the same, once it is asked: then the next one is played."""
    for attempt in range(ATTEMPTS):
        incident = draw(kind, seed, attempt, hours)
        try:
            rule = choose_rule(incident)
        except NoSignal:
            continue
        yield incident, rule


def make_incident(kind: Kind, seed: int, *, hours: float = HOURS) -> tuple[Incident, AlertRule]:
    """The first of them. Raises NoSignal."""
    for incident, rule in make_incidents(kind, seed, hours=hours):
        return incident, rule
    raise NoSignal(f"{kind.name}, seed {seed}: no rule fires in {ATTEMPTS} draws")


def choose_rule(incident: Incident) -> AlertRule:
    """A rule that somebody would have written, and that fires on this. Raises NoSignal."""
    rng = generator_for(incident.system.seed, "rule")
    system, kind = incident.system, incident.kind
    candidates = [incident.cast[role] for role in kind.alerting] or alerting_services(rng, incident)
    for signal in kind.alerts:
        special = special_rule(incident, signal)
        if special is not None:
            return special
    for name in candidates:
        service = system.services[name]
        for signal in rng.permutation(np.array(kind.alerts)):
            level = level_of(incident, service, str(signal))
            threshold = threshold_of(incident, level, str(signal))
            if threshold is not None:
                return request_rule(rng, incident, service, str(signal), threshold)
    raise NoSignal(kind.name)


def alerting_services(rng: np.random.Generator, incident: Incident) -> list[str]:
    """Half of the rules watch the front door, the others any service on the way."""
    names = [service.name for service in incident.system.of_role("front", "app")]
    inner = [str(name) for name in rng.permutation(names[1:])]
    front = incident.cast["front"]
    return [front, *inner] if rng.random() < 0.5 else [*inner, front]


def level_of(incident: Incident, service: Service, signal: str) -> Floats:
    """What a rule on a service would see, over time: means of five minutes."""
    flow = incident.flow
    window = max(2, round(300 / flow.clock.step_s))
    if signal == "errors":
        values = flow.mean_over_pods(flow.failed, service)
    elif signal == "latency":
        values = 1.95 * flow.mean_over_pods(flow.latency, service) / 1000
    else:
        values = flow.rate[service.name]
    padded = np.concatenate([np.full(window - 1, values[0]), values])
    return np.convolve(padded, np.ones(window) / window, "valid")


def threshold_of(incident: Incident, level: Floats, signal: str) -> float | None:
    """A round number above all that was usual, and below the incident."""
    seconds = incident.flow.clock.seconds
    before = level[seconds < min(incident.onset_s - 120, -600)]
    if incident.kind.restarts == "cycle":
        before = np.sort(before)[: int(0.7 * before.size)]
    usual = float(np.quantile(before, 0.999))
    during = level[seconds > incident.onset_s]
    reached = float(during.max()) if incident.kind.story == "nothing" else float(during[-3:].min())
    if incident.kind.restarts == "cycle":
        reached = float(during[-1:].max())
    fitting = [t for t in THRESHOLDS[signal] if 1.3 * usual < t < 0.75 * reached]
    return fitting[len(fitting) // 2] if fitting else None


def request_rule(
    rng: np.random.Generator, incident: Incident, service: Service, signal: str, threshold: float
) -> AlertRule:
    """A rule on a service's requests."""
    is_generic = bool(rng.random() < 0.5)
    text = request_expression(incident.system, service, signal, is_generic=is_generic)
    title = {"errors": "HighErrorRate", "latency": "HighLatency", "traffic": "HighRequestRate"}[
        signal
    ]
    if not is_generic:
        title = "".join(word.capitalize() for word in service.name.split("-")) + title
    summary = {
        "errors": f"More than {threshold:.0%} of requests fail",
        "latency": f"p95 latency is above {threshold:g}s",
        "traffic": f"More than {threshold:g} requests per second",
    }[signal]
    return AlertRule(title, f"{text} > {threshold:g}", summary)


def special_rule(incident: Incident, signal: str) -> AlertRule | None:
    """The rules on what is no request: a queue's lag, an exporter, noise."""
    flow, system, cast = incident.flow, incident.system, incident.cast
    if signal == "lag":
        lag = flow.lag[cast["queue"]]
        usual = float(lag[flow.clock.seconds < incident.onset_s].max()) + 30
        fitting = [t for t in THRESHOLDS["lag"] if 2 * usual < t < 0.8 * lag[-10:].min()]
        if not fitting:
            raise NoSignal(incident.kind.name)
        text = "sum by (consumergroup, topic) (kafka_consumergroup_lag)"
        return AlertRule("KafkaConsumerLag", f"{text} > {fitting[-1]}", "Consumer group is behind")
    if signal == "exporter":
        job = MONITORED[system.services[cast["exporter"]].role]
        return AlertRule("TargetDown", f'up{{job="{job}"}} == 0', "A target cannot be scraped")
    if signal == "traffic":
        front = system.services[cast["front"]]
        level = level_of(incident, front, "traffic")
        threshold = round(0.96 * float(level[-20:].min()), 1)
        text = request_expression(system, front, "traffic", is_generic=False)
        return AlertRule(
            "HighRequestRate", f"{text} > {threshold}", f"More than {threshold} requests/s"
        )
    if signal == "flapping":
        watched = system.services[cast["front"] if system.seed % 2 else cast["service"]]
        level = level_of(incident, watched, "latency")
        # Written when the service was young: it is crossed by noise a few times an hour.
        recent = float(level[flow.clock.seconds > -420].min())
        threshold = float(f"{0.97 * recent:.2g}")
        text = request_expression(system, watched, "latency", is_generic=False)
        return AlertRule(
            "HighLatency", f"{text} > {threshold:g}", f"p95 latency is above {threshold:g}s", 60
        )
    return None
