"""What differs between two pod templates, in words and line by line. Values of variables are never
shown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from faultline.analysis.changes.versions import tag_of
from faultline.connectors.shared.vendor_text import short

RESTARTED = "kubectl.kubernetes.io/restartedAt"
"""The annotation by which `kubectl rollout restart` makes a new revision of the same template."""
MOST_CONTAINERS, MOST_FACTS, MOST_LISTED, MOST_DIFF = 20, 400, 4, 60
MOST_NODES = 20_000
"""Nodes of a template that are looked through: it may be nested as deep as its author likes."""
HIDDEN, TOO_DEEP = "not shown", "nested too deeply"
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_CONFIG_MAPS = ("configMap", "configMapRef", "configMapKeyRef")
_SECRETS = ("secret", "secretRef", "secretKeyRef")
_POD_SETTINGS = (
    "serviceAccountName",
    "priorityClassName",
    "nodeSelector",
    "terminationGracePeriodSeconds",
)

Facts = dict[str, tuple[str, str]]
"""What a pod template says, by key: as it may be shown, and as it is compared."""


@dataclass(frozen=True)
class TemplateDifference:
    """What a template says before and after; `old` is None for the first revision known."""

    old: Facts | None
    new: Facts

    @classmethod
    def between(
        cls, before: Mapping[str, Any] | None, after: Mapping[str, Any]
    ) -> TemplateDifference:
        """The difference between two templates."""
        return cls(None if before is None else facts(before), facts(after))

    @property
    def changed(self) -> list[str]:
        """The keys of what differs."""
        if self.old is None:
            return []
        keys = dict.fromkeys((*self.old, *self.new))
        return [key for key in keys if _compared(self.old, key) != _compared(self.new, key)]

    def summary(self) -> str:
        """The most telling differences in words: images, then resources, then the rest."""
        if self.old is None:
            images = [shown for key, (shown, _) in self.new.items() if key.endswith(" image")]
            if not images:
                return "its first revision"
            return f"image {', '.join(_last(image) for image in images[:MOST_LISTED])}"
        changed = self.changed
        if not changed:
            return "nothing that is read differs"
        ordered = sorted(changed, key=_telling)
        summary = ", ".join(_change(key, self.old, self.new) for key in ordered[:MOST_LISTED])
        rest = len(changed) - MOST_LISTED
        return f"{summary} and {rest} more" if rest > 0 else summary

    @property
    def versions(self) -> tuple[str | None, str | None]:
        """Tags of the first image that differs, before and after. Of a first revision, the tag of
        its first image."""
        for key, (image, _) in self.new.items():
            if not key.endswith(" image"):
                continue
            if self.old is None:
                return None, tag_of(image)
            if key in self.changed and key in self.old:
                return tag_of(self.old[key][0]), tag_of(image)
        return None, None

    def lines(self) -> Iterator[str]:
        """The difference as lines of a diff."""
        old = self.old or {}
        for key in self.changed[:MOST_DIFF]:
            before, after = old.get(key), self.new.get(key)
            # What is hidden looks the same on both sides, and still differs.
            looks_same = before is not None and after is not None and before[0] == after[0]
            if before is not None:
                yield f"-{key}: {before[0]}{' (before)' if looks_same else ''}"
            if after is not None:
                yield f"+{key}: {after[0]}{' (after)' if looks_same else ''}"


def _telling(key: str) -> tuple[bool, bool]:
    return not key.endswith(" image"), not ("limits" in key or "requests" in key)


def _change(key: str, old: Facts, new: Facts) -> str:
    before = _last(old[key][0]) if key in old else ""
    after = _last(new[key][0]) if key in new else ""
    # The name without its container: `image`, `limits.memory`.
    name = key.partition(" ")[2] or key
    if before != after and HIDDEN not in (before, after):
        return f"{name} {before or 'none'} -> {after or 'none'}"
    if key not in new:
        return f"{name} removed"
    return f"{name} changed" if key in old else f"{name} added"


def _compared(side: Facts, key: str) -> str | None:
    return side[key][1] if key in side else None


def _last(image: str) -> str:
    """An image without its registry and path."""
    return image if image.endswith("/") else image.rpartition("/")[2]


def facts(template: Mapping[str, Any]) -> Facts:
    """What of a pod template matters: images, limits, probes, and the names of what it is
    configured with."""
    template_facts: Facts = {}
    spec = _table(template.get("spec"))
    containers = [*_tables(spec.get("containers")), *_tables(spec.get("initContainers"))]
    for container in containers[:MOST_CONTAINERS]:
        template_facts.update(_container_facts(container))
    for volume in _tables(spec.get("volumes")):
        template_facts[f"volume {_text(volume.get('name'))}"] = (
            _sources(volume),
            _canonical(volume),
        )
    for key in _POD_SETTINGS:
        if key in spec:
            template_facts[key] = (_text(spec[key]), _canonical(spec[key]))
    for key, value in _table(_table(template.get("metadata")).get("annotations")).items():
        if key == RESTARTED:
            template_facts["restarted"] = (_text(value), _canonical(value))
        else:
            # An annotation may hold anything, secrets included.
            template_facts[f"annotation {_text(key)}"] = (HIDDEN, _canonical(value))
    return dict(islice(template_facts.items(), MOST_FACTS))


def _container_facts(container: Mapping[str, Any]) -> Facts:
    text = _text(container.get("name"))
    container_facts: Facts = {}
    image = container.get("image")
    container_facts[f"{text} image"] = (_text(image), _canonical(image))
    for side, amounts in _table(container.get("resources")).items():
        for resource, amount in _table(amounts).items():
            container_facts[f"{text} {_text(side)}.{_text(resource)}"] = (
                _text(amount),
                _canonical(amount),
            )
    for probe in _PROBES:
        if probe in container:
            table = _table(container[probe])
            container_facts[f"{text} {probe}"] = (_numbers(table) or "set", _canonical(table))
    for variable in _tables(container.get("env")):
        name = f"{text} env {_text(variable.get('name'))}"
        container_facts[name] = (_sources(variable), _canonical(variable))
    for number, source in enumerate(_tables(container.get("envFrom"))):
        container_facts[f"{text} envFrom {number}"] = (_sources(source), _canonical(source))
    for key in ("command", "args"):
        if key in container:
            # Arguments may carry passwords.
            container_facts[f"{text} {key}"] = (HIDDEN, _canonical(container[key]))
    return container_facts


def _numbers(probe: Mapping[str, Any]) -> str:
    """Delays and thresholds of a probe; its command or header may hold a secret."""
    # A bool is an int too, so the very type is asked for.
    return ", ".join(f"{_text(key)} {value}" for key, value in probe.items() if type(value) is int)


def _sources(source: Mapping[str, Any]) -> str:
    """Where a value comes from; the value itself is not shown."""
    names = sorted(f"config map {_text(name)}" for name in config_maps_of(source))
    for holder in (source, _table(source.get("valueFrom"))):
        for key in _SECRETS:
            secret = _table(holder.get(key))
            if secret:
                names.append(f"secret {_text(secret.get('name') or secret.get('secretName'))}")
    return ", ".join(names) or HIDDEN


def config_maps_of(template: Mapping[str, Any] | None) -> set[str]:
    """Names of the config maps that a pod template reads."""
    return _names_in(template, _CONFIG_MAPS, ("name",))


def secrets_of(template: Mapping[str, Any] | None) -> set[str]:
    """Names of the secrets that a pod template reads."""
    return _names_in(template, _SECRETS, ("name", "secretName"))


def _names_in(
    template: Mapping[str, Any] | None, references: Iterable[str], names: Iterable[str]
) -> set[str]:
    object_names: set[str] = set()
    for node in islice(_nodes(template), MOST_NODES):
        if not isinstance(node, Mapping):
            continue
        for key in references:
            reference = _table(node.get(key))
            object_names.update(name for name in map(reference.get, names) if isinstance(name, str))
    return object_names


def _nodes(root: Any) -> Iterator[Any]:
    """Everything in nested tables and lists, without recursion."""
    waiting: list[Any] = [root]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, Mapping):
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def _canonical(value: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True, default=str)
    except RecursionError:
        return TOO_DEEP


def _text(value: Any) -> str:
    return short(value if isinstance(value, str) else _canonical(value), 160)


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _tables(value: Any) -> list[Mapping[str, Any]]:
    return (
        [table for table in value if isinstance(table, Mapping)] if isinstance(value, list) else []
    )
