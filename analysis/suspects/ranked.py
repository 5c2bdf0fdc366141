"""Suspects in the order of how likely each is the cause, with a probability each.

The probabilities of all suspects and of "something that was not seen" add up to 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from faultline.analysis.suspects.features import SuspectFeatures, log_odds
from faultline.analysis.suspects.observed import Observed
from faultline.analysis.suspects.ranking_weights import NO_SUSPECT_ODDS, TEMPERATURE, WEIGHTS
from faultline.analysis.suspects.suspect import Suspect
from faultline.analysis.vocabulary import Finding


def rank_suspects(
    suspects: Sequence[Suspect], observation: Observed, findings: Sequence[Finding]
) -> list[Suspect]:
    """The suspects with their probabilities, the likeliest first; a rank that clearly delays all
    others before everybody."""
    features = SuspectFeatures(observation, findings, suspects)
    odds = {}
    for suspect in suspects:
        odds[suspect.subject] = log_odds(WEIGHTS, features.of(suspect.subject))
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


def _explain_by_place(ranked: Sequence[Suspect], observation: Observed) -> None:
    """What runs in the place that comes first is its victim, and no evidence against it."""
    first = ranked[0].subject if ranked else None
    for place in observation.places:
        if place.name != first:
            continue
        for suspect in ranked[1:]:
            if suspect.subject in place.services:
                suspect.explained_by = first
