"""Puts plotly's script into the package when a wheel or an editable installation is built.

Reports are pages in one file that draw with this script. The rest of plotly, 60 MB, is of no use to them.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SCRIPT = "src/pilotage/report/plotly.min.js"


class DrawingScript(BuildHookInterface[Any]):
    """The same bytes as in the version of plotly that pyproject.toml names."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        plotly = find_spec("plotly")
        if plotly is None or plotly.origin is None:
            raise RuntimeError("plotly is not there: build with isolation, or install what build-system.requires names")
        script = (Path(plotly.origin).parent / "package_data" / "plotly.min.js").read_bytes()
        target = Path(self.root) / SCRIPT
        if not target.exists() or target.read_bytes() != script:
            target.write_bytes(script)
        build_data["artifacts"].append(SCRIPT)
