"""Results as bytes of files: the same for the same results."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence


def dump(content: object) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode()


def table(rows: Sequence[Mapping[str, object]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
