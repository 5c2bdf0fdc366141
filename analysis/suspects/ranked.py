"""Suspects in the order of how likely each is the cause, with a probability each.

The probabilities of all suspects and of "something that was not seen" add up to 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from faultline.analysis.analyzers import fault_of
from faultline.analysis.kinds.finding_details import StateFactDetails
from faultline.analysis.suspects.features import Observed, SuspectFeatures, log_odds
from faultline.analysis.suspects.ranking_weights import NO_SUSPECT_ODDS, TEMPERATURE, WEIGHTS
from faultline.analysis.suspects.suspect import Suspect
from faultline.analysis.vocabulary import Finding

CLEARLY_DELAYS = 1.0
"""Added to what the findings say of a rank that clearly delays all others."""

CLEAR_SCORE = 0.7
"""A suspect whose findings say less than this is faint, however much less they say of the others.
With the loudest counted as fully guilty, thirteen of 111 recorded systems that were left out had a
wrong cause at 60 % and more, and with this two; calm systems with a cause at 50 % and more fell
from 14 to 1 %."""
STATE_FACT = 2.5
"""The log odds of a fresh fact about an object that nothing else explains, beside the features,
which were fitted on cases without such facts. On 155 worlds of the training stream with clusters
the likelihood is flat from 2.5 to 5 times the temperature; the lowest of these takes least from
causes that only metrics show."""


def rank_suspects(
    suspects: Sequence[Suspect], observation: Observed, findings: Sequence[Finding]
) -> list[Suspect]:
    """The suspects with their probabilities, the likeliest first; a rank that clearly delays all
    others before everybody."""
    features = SuspectFeatures(observation, findings, findings_shares(suspects))
    odds = {}
    for suspect in suspects:
        score = log_odds(WEIGHTS, features.of(suspect.subject))
        odds[suspect.subject] = score + STATE_FACT * state_evidence(suspect)
    scaled = [odds[suspect.subject] / TEMPERATURE for suspect in suspects]
    highest = max([*scaled, NO_SUSPECT_ODDS])
    # Subtract the highest first: the exponential of a large number overflows.
    weights = [math.exp(value - highest) for value in scaled]
    every = math.fsum(weights) + math.exp(NO_SUSPECT_ODDS - highest)
    for suspect, probability in zip(suspects, [weight / every for weight in weights], strict=True):
        suspect.probability = probability
    # Rounded, so that the last bit of a float does not decide the order.
    ranked = sorted(suspects, key=lambda s: (not s.is_root, -round(s.probability, 6), s.subject))
    _explain_by_place(ranked, observation)
    return ranked


def state_evidence(suspect: Suspect) -> float:
    """How far the state of an object speaks for it, in [0, 1]: squared, because weak facts are
    found in every cluster."""
    largest = 0.0
    for finding in suspect.findings:
        fault = fault_of(finding)
        if fault is not None and StateFactDetails.of(finding) is not None:
            raw = suspect.raw_scores.get(fault.name, 0.0)
            # What a callee explains of it is no evidence against the subject.
            left = suspect.scores.get(fault.name, 0.0) / raw if raw > 0 else 1.0
            largest = max(largest, fault.weight * finding.strength * left)
    return largest**2


def _explain_by_place(ranked: Sequence[Suspect], observation: Observed) -> None:
    """What runs in the place that comes first is its victim, and no evidence against it."""
    first = ranked[0].subject if ranked else None
    for place in observation.places:
        if place.name != first:
            continue
        for suspect in ranked[1:]:
            if suspect.subject in place.services:
                suspect.explained_by = first


def findings_shares(suspects: Sequence[Suspect]) -> dict[str, float]:
    """What the findings say about each suspect, as a share of the most that they say about one, and
    less where even that is faint."""
    most = max(max((suspect.score for suspect in suspects), default=0.0), CLEAR_SCORE)
    shares = {}
    for suspect in suspects:
        clear = CLEARLY_DELAYS if suspect.is_root else 0.0
        shares[suspect.subject] = suspect.score / most + clear
    return shares
