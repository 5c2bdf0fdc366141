"""Lines of a training job's logs that name a failure: the table of
`faultline.analysis.logs.failure_signatures` and the Xid codes."""

from __future__ import annotations

from faultline.analysis.logs.failure_signatures import LINE_LIMIT, SIGNATURES, Signature
from faultline.analysis.logs.signature_findings import match, match_all
from faultline.analysis.logs.xid_codes import XID, XIDS, Xid, specific_signature

__all__ = [
    "LINE_LIMIT",
    "SIGNATURES",
    "XID",
    "XIDS",
    "Signature",
    "Xid",
    "match",
    "match_all",
    "specific_signature",
]
