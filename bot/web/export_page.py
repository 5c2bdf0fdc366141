"""An answer for elsewhere, to download: postmortem draft, JSON, task for a coding agent. The same
bytes each time."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from faultline.analysis.errors import FaultlineError
from faultline.bot.answer.exports.formats import FORMATS, export
from faultline.bot.runtime.threads import in_thread
from faultline.bot.web.rendering import Site

BY_FILE = {export_format.file: name for name, export_format in FORMATS.items()}


class ExportPage:
    """The handler of `/investigations/{id}/export/{file}`."""

    def __init__(self, site: Site) -> None:
        self.site = site

    async def export(self, request: Request) -> Response:
        """One file."""
        investigation = await self.site.investigation(request)
        if investigation is None:
            return self.site.no_such_investigation(request)
        name = BY_FILE.get(request.path_params["file"])
        if name is None:
            return self.site.problem(
                request, 404, "No such export", f"There are {', '.join(BY_FILE)}."
            )
        if investigation.status != "done":
            return self.site.problem(
                request, 409, "Not yet", "This investigation has no answer to export."
            )
        folder, trouble = await self.site.folder(investigation.id)
        if folder is None:
            return self.site.problem(
                request, 404, "No case folder", trouble or "There is no case folder."
            )
        try:
            written = await in_thread(export, folder, name)
        except (FaultlineError, OSError) as error:
            return self.site.problem(
                request, 404, "No export", f"The case cannot be read: {error}."
            )
        headers = {
            "content-disposition": f'attachment; filename="{investigation.id}-{FORMATS[name].file}"'
        }
        return Response(
            written, media_type=f"{FORMATS[name].media_type}; charset=utf-8", headers=headers
        )
