"""Small formulae of queues and latency distributions, over arrays of any shape."""

from __future__ import annotations

import numpy as np

from proving_ground.worlds.graph import Floats

FULL = 0.995
"""Utilisation at which the waiting-time formula is cut: beyond it, the queue's limit decides."""


def normal_cdf(z: Floats) -> Floats:
    """Standard normal distribution function; a logistic fit that errs by less than 1.4e-4."""
    bounded = np.clip(z, -8.0, 8.0)
    return 1.0 / (1.0 + np.exp(-(1.5976 * bounded + 0.07056 * bounded**3)))


def mean_wait(load: Floats, service_s: Floats, servers: Floats) -> Floats:
    """Seconds a request waits in an M/M/c queue (Sakasegawa's approximation, 1977).

    `load` is the utilisation per server, cut at `FULL`. Less than one server waits like one.
    """
    used = np.minimum(load, FULL)
    count = np.maximum(servers, 1.0)
    exponent = np.sqrt(2.0 * (count + 1.0)) - 1.0
    return np.asarray(service_s * used**exponent / (count * (1.0 - used)))


def lognormal(mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """(mu, sigma) of the lognormal distribution with that mean and variance."""
    spread = np.log1p(variance / np.maximum(mean, 1e-9) ** 2)
    return np.log(np.maximum(mean, 1e-9)) - spread / 2, np.sqrt(np.maximum(spread, 1e-6))


def beyond(mu: Floats, sigma: Floats, limit: Floats) -> Floats:
    """The share of a lognormal distribution above `limit`."""
    return normal_cdf((mu - np.log(limit)) / sigma)


def cut_mean(mean: Floats, mu: Floats, sigma: Floats, limit: Floats) -> Floats:
    """The mean of min(X, limit) for a lognormal X."""
    edge = np.log(limit)
    below = mean * normal_cdf((edge - mu - sigma**2) / sigma)
    return below + limit * beyond(mu, sigma, limit)


def backlog(arriving: Floats, possible: Floats, before: float) -> Floats:
    """Waiting items after each step, when up to `possible` of them are taken per step.

    Lindley's recursion in closed form: the running sum less its running minimum.
    """
    path = before + np.cumsum(arriving - possible)
    waiting: Floats = path - np.minimum(np.minimum.accumulate(path), 0.0)
    return waiting


def quantile(
    share: float, usual: tuple[Floats, Floats], slow: tuple[Floats, Floats], slow_share: Floats
) -> Floats:
    """A quantile of a mixture of two lognormal distributions, by bisection of its logarithm."""
    low = np.minimum(usual[0], slow[0]) - 6 * np.maximum(usual[1], slow[1])
    high = np.maximum(usual[0], slow[0]) + 6 * np.maximum(usual[1], slow[1])
    for _ in range(14):
        middle = (low + high) / 2
        under = (1 - slow_share) * normal_cdf((middle - usual[0]) / usual[1])
        under += slow_share * normal_cdf((middle - slow[0]) / slow[1])
        too_low = under < share
        low = np.where(too_low, middle, low)
        high = np.where(too_low, high, middle)
    return np.asarray(np.exp((low + high) / 2))
