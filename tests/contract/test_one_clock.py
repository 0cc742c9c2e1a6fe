"""Layers that live in time ask one clock: nothing but model/clock.py reads the machine's."""

from __future__ import annotations

import re
from pathlib import Path

import pilotage

SOURCES = Path(pilotage.__file__).parent
READS = re.compile(r"time\.(?:time|monotonic|sleep|clock_gettime)\(|datetime\.(?:now|utcnow|today)\(")


def test_nothing_else_reads_the_time() -> None:
    layers = [*(SOURCES / name for name in ("kube", "scheduler", "lab", "policies", "model"))]
    files = [path for layer in layers for path in layer.rglob("*.py")]
    reading = {path.relative_to(SOURCES).as_posix() for path in files if READS.search(path.read_text())}
    assert reading == {"model/clock.py"}
