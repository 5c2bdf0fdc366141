"""Settings of runbooks."""

from __future__ import annotations

from faultline.connectors.shared.settings.settings_types import Names, Section


class RunbookSettings(Section):
    """The operator's guidance as Markdown files: docs/runbooks.md."""

    directories: Names = ()
    """Directories whose `.md` files are runbooks, with all below them. Unset: there are none."""
    link_hosts: Names = ()
    """Hosts that runbooks may link to, besides those of addresses in these settings."""
