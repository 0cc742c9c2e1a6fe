"""The command line as users meet it: exit code, standard output, standard error."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from pilotage.cli import main
from pilotage.workloads import openb
from pilotage.workloads.generate import Times, openb_like_nodes, openb_like_pods

# A user's file; tests replace a line of it by what they are about.
POLICY = """
import numpy as np
from pilotage.policies.api import FeatureSchema

class Mine:
    name = "mine@1"
    features = FeatureSchema()
    scope = "node"
    normalise = "none"

    def prepare(self, mix):
        return self

    def score(self, batch, out_BN, device_BN):
        out_BN[:] = 0
"""
SCRIPT = Path(sys.executable).with_name("pilotage")


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str


def pilotage(*arguments: object) -> Done:
    """The command in this process, through the entry point of the console script."""
    out, err = io.StringIO(), io.StringIO()
    argv = ["pilotage", *map(str, arguments)]
    code: object = 0
    with patch.object(sys, "argv", argv), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as left:
            code = left.code
    return Done(code if isinstance(code, int) else int(code is not None), out.getvalue(), err.getvalue())


def installed_pilotage(*arguments: object, cwd: Path | None = None, seconds: float = 300.0) -> Done:
    """The installed console script in a process of its own."""
    done = subprocess.run(
        [SCRIPT, *map(str, arguments)], capture_output=True, text=True, check=False, cwd=cwd, timeout=seconds
    )
    return Done(done.returncode, done.stdout, done.stderr)


def small_trace(directory: Path, stem: str = "small", pods: int = 150, scale: float = 0.02) -> list[str]:
    """Options that name a generated trace, timed, with load enough to refuse pods."""
    nodes, pods_file = directory / "nodes.csv", directory / f"{stem}.csv"
    openb.write_nodes(nodes, openb_like_nodes(scale))
    openb.write_pods(pods_file, openb_like_pods(pods, times=Times(nodes_scale=scale)))
    return ["--nodes", str(nodes), "--pods", str(pods_file)]
