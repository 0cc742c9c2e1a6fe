"""A page that is one self-contained file and opens from disk, without network.

A content security policy lets nothing run but the two scripts of the page, and nothing load at all.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path

from pilotage.model.errors import PilotageError

_HERE = Path(__file__).parent


def document(title: str, body: str) -> str:
    """The whole page; title and body are HTML."""
    scripts = [_drawing_script(), (_HERE / "page.js").read_text(encoding="utf-8")]
    style = (_HERE / "page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_security(scripts)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{title}</title><style>{style}</style></head>\n"
        f"<body><main>{body}</main>\n"
        '<noscript><p class="fine">Figures are drawn by a script inside this file.</p></noscript>\n'
        f"{''.join(f'<script>{script}</script>' for script in scripts)}</body></html>\n"
    )


def drawing_version() -> str:
    """Of plotly.js, as its script begins."""
    found = re.search(r"plotly\.js v([\d.]+)", _drawing_script()[:500])
    return found[1] if found else "of no known version"


@cache
def _drawing_script() -> str:
    """plotly.js, which hatch_build.py puts beside this module."""
    try:
        return (_HERE / "plotly.min.js").read_bytes().decode()
    except FileNotFoundError as error:
        raise PilotageError(
            "plotly.min.js is not in the package: pip install it, or in a clone make install"
        ) from error


def _security(scripts: list[str]) -> str:
    """Only scripts with these digests run, so that no text from outside can become one."""
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
