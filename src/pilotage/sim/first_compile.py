"""The first compilation on two cores: a second process compiles the choice of a node while the run compiles the rest.

Both keep what they compile in the cache on disk, where the other finds it. Nothing depends on it but the time.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from functools import cache
from typing import Any

from numba import typeof

from pilotage.kernels.choosing import choose_node
from pilotage.kernels.compiling import cache_directory
from pilotage.model.cluster import Node
from pilotage.model.workload import Pod, PodShape, Workload


@cache
def share_first_compile() -> None:
    """Starts the second process when there is a core for it and nobody has compiled or asked for help yet."""
    try:
        (cache_directory() / "compiled-together").touch(exist_ok=False)
    except OSError:
        return
    if (os.cpu_count() or 1) < 2:
        return
    helper = subprocess.Popen(
        [sys.executable, "-m", "pilotage.sim.first_compile"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    atexit.register(helper.wait)


def compile_choice() -> None:
    """Compiles `choose_node` for the types that every run has."""
    from pilotage.policies.registry import find_policy
    from pilotage.sim.run import Run

    run = Run([Node("node", 1000, 1)], Workload.of([Pod("pod", PodShape(1))]), find_policy("fgd"))
    scene = run.scene
    arguments = (scene.cluster, scene.shapes, 0, scene.node_NF, run.rules, scene.cache)
    compiler: Any = choose_node  # what numba makes of the function
    compiler.compile(tuple(map(typeof, arguments)))


if __name__ == "__main__":
    compile_choice()
