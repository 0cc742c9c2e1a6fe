"""A service that is started again where one was killed."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from pilotage.lab.controlplane import Lab
from pilotage.lab.plugin_figures import start_service
from pilotage.lab.processes import stop
from pilotage.model.clock import SystemClock


def test_it_answers_when_it_is_called_started(tmp_path: Path) -> None:
    path, clock = tmp_path / "s", SystemClock()
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
    (tmp_path / "log").write_text('{"listening": "127.0.0.1:1"}\n')
    lab = cast(Lab, SimpleNamespace(directory=tmp_path, log=lambda name: tmp_path / "log"))
    service = start_service(lab, path, "best-fit", clock)
    try:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(path))
    finally:
        stop(service, clock)
