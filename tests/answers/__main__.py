from __future__ import annotations

import sys
from pathlib import Path

from tests.answers.frozen import answer_files, freeze

if sys.argv[1:2] == ["freeze"] and len(sys.argv) == 4:
    freeze(sys.argv[2], Path(sys.argv[3]))
elif sys.argv[1:] != ["write"]:
    sys.exit("usage: python -m tests.answers freeze NAME CASE | write")
for answer in answer_files():
    answer.kept.write_text(answer.text(), "utf-8")
