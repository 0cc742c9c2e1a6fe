"""Helm charts as manifests, rendered by the `helm` on PATH.

Nothing is downloaded: dependencies must be in the chart.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from pilotage.model.errors import InputError
from pilotage.workloads.yaml_documents import MAX_FILE_BYTES

TIME_LIMIT = 60.0  # seconds
EXECUTABLE = "helm"
_MOST_SAID = 500  # characters of helm's own message
_PIECE = 65536


def render_chart(name: str, chart: Path, *, time_limit: float = TIME_LIMIT, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """The manifests of a chart with its default values, as `helm template NAME CHART` writes them."""
    helm = shutil.which(EXECUTABLE)
    if helm is None:
        problem = f"is a Helm chart, and {EXECUTABLE} is not on PATH"
        raise InputError(problem, file=chart, expected="helm 3 or later installed, or the chart rendered to manifests")
    # No shell, and what follows -- is never an option. A session of its own, so that children end with it.
    command = [helm, "template", "--", name, str(chart.resolve())]
    try:
        process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise InputError(f"{helm} cannot be started: {error.strerror}", file=chart) from error
    with process:
        try:
            deadline = time.monotonic() + time_limit
            out, said = _read(process, chart, deadline, max_bytes)
            process.wait(max(0.0, deadline - time.monotonic()))
        except BaseException as error:  # Ctrl-C too: it does not reach another session
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise _too_slow(chart) from error
            raise
    if process.returncode != 0:
        message = " ".join(said.decode(errors="replace").split())[:_MOST_SAID]
        raise InputError(f"helm template ends with code {process.returncode}: {message or 'no message'}", file=chart)
    return out


def _read(process: subprocess.Popen[bytes], chart: Path, deadline: float, max_bytes: int) -> tuple[bytes, bytes]:
    """Standard output and error, to their ends; an error when it takes too long or is too much."""
    read: dict[str, bytearray] = {"out": bytearray(), "said": bytearray()}
    with selectors.DefaultSelector() as waiting:
        for key, stream in (("out", process.stdout), ("said", process.stderr)):
            assert stream is not None  # noqa: S101  # both are pipes
            waiting.register(stream, selectors.EVENT_READ, key)
        while waiting.get_map():
            ready = waiting.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise _too_slow(chart)
            for entry, _ in ready:
                piece = os.read(entry.fd, _PIECE)
                read[entry.data] += piece
                if not piece:
                    waiting.unregister(entry.fileobj)
                if len(read[entry.data]) > max_bytes:
                    problem = f"helm template writes more than {max_bytes} bytes"
                    raise InputError(problem, file=chart, expected="a smaller chart")
    return bytes(read["out"]), bytes(read["said"])


def _too_slow(chart: Path) -> InputError:
    return InputError("helm template takes too long", file=chart, expected="a chart that renders quickly")
