"""What is wrong with runbooks beyond what reading them finds: dead includes, cycles, runbooks that
can match nothing, services that nobody knows, links that would be left out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

from faultline.bot.investigation.runbooks.library import (
    FileProblem,
    RunbookLibrary,
    linkable_hosts,
    read_library,
)
from faultline.bot.investigation.runbooks.matching import glob_matches, may_link
from faultline.bot.investigation.runbooks.runbook import Place, Runbook
from faultline.bot.policy.services import catalogue_name
from faultline.bot.settings import Settings


def lint(settings: Settings) -> tuple[RunbookLibrary, list[FileProblem]]:
    """All runbooks, and everything that is wrong with them, by file and line."""
    library = read_library(settings.runbooks.directories)
    hosts = linkable_hosts(settings)
    problems = [*library.problems, *_cycles(library)]
    included = {path for runbook in library.runbooks.values() for path in runbook.keys.include}
    for runbook in library.runbooks.values():
        faults = [
            *_dead_includes(runbook, library),
            *_unreachable(runbook, settings, included),
            *_unknown_names(runbook, settings),
            *_links_left_out(runbook, hosts),
        ]
        problems += [
            FileProblem(library.file_of(runbook), _line(runbook, place), text)
            for place, text in faults
        ]
    return library, sorted(set(problems), key=lambda p: (p.file, p.line, p.text))


def _line(runbook: Runbook, place: Place) -> int:
    while place and place not in runbook.lines:
        place = place[:-1]
    return runbook.lines.get(place, 1)


Faults = Iterator[tuple[Place, str]]


def _dead_includes(runbook: Runbook, library: RunbookLibrary) -> Faults:
    for number, path in enumerate(runbook.keys.include):
        if path not in library.runbooks:
            near = _nearest(path, (name for name in library.runbooks if name != runbook.path))
            hint = (
                f"did you mean {near}?"
                if near
                else "paths are relative to the directory of the runbooks"
            )
            yield ("include", number), f"include: there is no {path:.120}; {hint}"


def _unreachable(runbook: Runbook, settings: Settings, included: Collection[str]) -> Faults:
    match = runbook.keys.match
    if match is None or not match.criteria:
        if runbook.path not in included:
            phrase = (
                "match: is missing, and no runbook includes this one, so it never applies; "
                "give services or alerts"
            )
            yield ("match",), phrase
        return
    names = _catalogue(settings)
    if _match_nothing(match.services, names):
        near = next((n for p in match.services for n in get_close_matches(p, names, n=1)), None)
        hint = (
            f"did you mean {near}?"
            if near
            else f"the catalogue has {', '.join(sorted(settings.services)[:5])}"
        )
        phrase = (
            f"match.services: {', '.join(match.services):.120} matches no service of the "
            f"catalogue; {hint}"
        )
        yield ("match", "services"), phrase
    jobs = [*settings.jobs, *(e.training_job for e in settings.services.values() if e.training_job)]
    if _match_nothing(match.jobs, jobs):
        yield (
            ("match", "jobs"),
            f"match.jobs: {', '.join(match.jobs):.120} matches no job of the settings",
        )


def _match_nothing(patterns: Sequence[str], names: Sequence[str]) -> bool:
    """Whether none of the names matches; without names there is nothing to compare with."""
    if not patterns or not names:
        return False
    return not any(glob_matches(pattern, name) for pattern in patterns for name in names)


def _unknown_names(runbook: Runbook, settings: Settings) -> Faults:
    names = _catalogue(settings)
    look_at = runbook.keys.look_at
    for number, service in enumerate(look_at.services):
        # Without a catalogue every name would be unknown.
        if names and (catalogue_name(service, settings) or "") not in settings.services:
            near = get_close_matches(service, names, n=1)
            hint = f"did you mean {near[0]}?" if near else "add it under [services]"
            yield (
                ("look_at", "services", number),
                f"look_at.services: {service:.80} is not in the catalogue; {hint}",
            )


def _links_left_out(runbook: Runbook, hosts: Collection[str]) -> Faults:
    for number, link in enumerate(runbook.keys.links):
        if not may_link(link.url, hosts):
            phrase = (
                f"links: {link.url:.120} is left out: its host is none of the settings'; see "
                f"runbooks.link_hosts"
            )
            yield ("links", number, "url"), phrase


def _catalogue(settings: Settings) -> list[str]:
    return [
        name for service, entry in settings.services.items() for name in (service, *entry.aliases)
    ]


def _nearest(path: str, names: Iterable[str]) -> str | None:
    """A runbook of the same file name, or one that is spelled almost so."""
    stems = {name.removesuffix(".md"): name for name in names}
    requested_path = path.removesuffix(".md")
    same = [stem for stem in stems if stem.rpartition("/")[2] == requested_path.rpartition("/")[2]]
    return next(
        (stems[stem] for stem in same or get_close_matches(requested_path, stems, n=1)), None
    )


def _cycles(library: RunbookLibrary) -> Iterator[FileProblem]:
    """Each cycle of includes once, in its first file by name."""
    reported_paths: set[str] = set()
    for path, runbook in library.runbooks.items():
        cycle = _way_back(path, library.runbooks) if path not in reported_paths else []
        # Report a cycle once, not once for each file in it.
        if cycle:
            reported_paths.update(cycle)
            number = runbook.keys.include.index(cycle[1] if len(cycle) > 1 else path)
            phrase = (
                f"include: leads back to itself: {' > '.join([*cycle, path])}; take one of "
                f"these out"
            )
            yield FileProblem(library.file_of(runbook), _line(runbook, ("include", number)), phrase)


def _way_back(start: str, runbooks: Mapping[str, Runbook]) -> list[str]:
    """The shortest way of includes from a runbook to itself; empty where there is none."""
    before: dict[str, str] = {}
    ahead = [start]
    # The list grows while it is walked, so the search finds the shortest way first.
    for here in ahead:
        for there in runbooks[here].keys.include if here in runbooks else ():
            if there == start:
                way = [here]
                while way[-1] != start:
                    way.append(before[way[-1]])
                return way[::-1]
            if there not in before:
                before[there] = here
                ahead.append(there)
    return []
