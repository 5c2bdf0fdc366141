"""How requests reach a service: Services, ingresses, routes, network policies, certificates."""

from __future__ import annotations

from faultline.analysis.kinds.state_fault import Depth, state_fault

ROUTES = (
    state_fault(
        "selector_matches_nothing",
        0.97,
        Depth.SETTING,
        "has a Service that selects none of its pods",
        "{object} selects {value}, which no pod has; the pods have {expected}",
        less="{object} selects no pod",
        step="Compare the selector of the Service of {subject} with the labels of its pods, and "
        "correct whichever changed.",
    ),
    state_fault(
        "port_not_served",
        0.97,
        Depth.SETTING,
        "gets its traffic on a port where nothing listens",
        "{object} sends to port {value}, and its containers declare {expected}",
        less="{object} sends to a port that no container declares",
        step="Correct the targetPort of the Service of {subject}, or the port of its containers.",
    ),
    state_fault(
        "route_to_nothing",
        0.95,
        Depth.SETTING,
        "has a route that leads nowhere",
        "{object} leads to {value}, which does not exist",
        less="{object} leads to a Service or port that does not exist",
        step="Correct the backend of the route to {subject}, or restore the Service.",
    ),
    state_fault(
        "traffic_blocked",
        0.95,
        Depth.SETTING,
        "is cut off by a network policy",
        "{object} lets nothing through from {value} to {expected}",
        less="{object} lets no traffic through",
        step="Read the network policies that select {subject}, and allow its callers again.",
    ),
    state_fault(
        "certificate_expired",
        0.95,
        Depth.SETTING,
        "has a certificate that is not valid",
        "{object} is not valid: {value}",
        less="{object} is not valid",
        step="Renew the certificate of {subject}, and find out why its issuer did not.",
    ),
    state_fault(
        "certificate_expires_soon",
        0.3,
        Depth.SETTING,
        "has a certificate that expires soon",
        "{object} expires soon: {value}",
        less="{object} expires soon",
        step="Renew the certificate of {subject} now, and find out why its issuer did not.",
    ),
    state_fault(
        "no_ready_endpoints",
        0.7,
        Depth.EFFECT,
        "has no ready instance",
        "{object} has no ready endpoint",
        step="Find out why no instance of {subject} is ready: its events and its probes.",
    ),
)
