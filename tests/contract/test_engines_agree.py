"""One comparison on every engine: the same bytes, also when a worker dies on the way."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from contract.commands import SCRIPT, Done, small_trace

# Kills its process once, whoever runs it, when the file says so.
MORTAL_POLICY = """
import os
import signal
from pathlib import Path
from pilotage.policies.api import FeatureSchema

class Mortal:
    name = "mortal@1"
    features = FeatureSchema(node=("cpu_free",))
    scope = "node"
    normalise = "none"

    def prepare(self, mix):
        death = Path(os.environ["DEATH"])
        if death.exists():
            death.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return self

    def score(self, batch, out_BN, device_BN):
        out_BN[:] = -batch.node("cpu_free")
"""
MEASURED = "timings.json"  # the one file that holds times


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("engines")
    (place / "mortal.py").write_text(MORTAL_POLICY)
    small_trace(place, pods=500, scale=0.05)
    return place


@pytest.fixture(scope="module")
def environment(place: Path) -> dict[str, str]:
    return {**os.environ, "DEATH": str(place / "death"), "RAY_USAGE_STATS_ENABLED": "0"}


@pytest.fixture(scope="module")
def two_ray_nodes(environment: dict[str, str]) -> Iterator[str]:
    """The address of a cluster; its processes end with the test."""
    script = Path(__file__).with_name("ray_cluster.py")
    with subprocess.Popen(
        [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as cluster:
        assert cluster.stdout is not None
        yield cluster.stdout.readline().strip()
        assert cluster.stdin is not None
        cluster.stdin.close()
        assert cluster.wait(timeout=60) == 0


def compared(place: Path, environment: dict[str, str], out: str, *engine: object) -> Done:
    comparison = ("compare", "--nodes", "nodes.csv", "--pods", "small.csv")
    policies = ("--policies", "fgd,best-fit,mortal.py:Mortal,random")
    done = subprocess.run(
        [SCRIPT, *comparison, *policies, "--seeds", "1-3", "--out", out, *map(str, engine)],
        capture_output=True,
        text=True,
        check=False,
        cwd=place,
        env=environment,
        timeout=100,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file() and path.name != MEASURED}


def test_local_and_ray_give_the_same_bytes_though_a_worker_dies(
    place: Path, environment: dict[str, str], two_ray_nodes: str
) -> None:
    for out, jobs in (("one", 1), ("two", 2)):
        done = compared(place, environment, out, "--jobs", jobs)
        assert done.code == 0, done.err
    (place / "death").touch()
    done = compared(place, environment, "ray", "--engine", "ray", "--address", two_ray_nodes)
    assert done.code == 0, done.err
    assert not (place / "death").exists(), "no worker died"
    done = compared(place, environment, "own", "--engine", "ray", "--jobs", 1)  # an instance of its own
    assert done.code == 0, done.err
    assert contents(place / "one") == contents(place / "two") == contents(place / "ray") == contents(place / "own")
    table = pl.read_parquet(place / "ray" / "results.parquet")
    assert table.height == 12
    assert set(table["policy"]) == {"fgd@1", "best-fit@1", "mortal@1", "random@1"}


def test_an_error_on_another_machine_is_told_as_here(
    place: Path, environment: dict[str, str], two_ray_nodes: str
) -> None:
    broken = MORTAL_POLICY.replace('-batch.node("cpu_free")', "float('nan')")
    (place / "mortal.py").write_text(broken)
    try:
        done = compared(place, environment, "broken", "--engine", "ray", "--address", two_ray_nodes)
    finally:
        (place / "mortal.py").write_text(MORTAL_POLICY)
    assert done.code == 2
    assert "mortal@1: a candidate's score is not a finite number" in done.err
    assert not (place / "broken" / "results.json").exists()


def test_no_cluster_at_the_address_is_said(place: Path, environment: dict[str, str]) -> None:
    for address in ("127.0.0.1:1", "nonsense"):
        done = compared(place, environment, "none", "--engine", "ray", "--address", address)
        assert done.code == 2
        assert f"--address: no Ray cluster at {address}" in done.err
    assert not (place / "none").exists()


EVOLUTION = """
import os, signal, sys
from pathlib import Path
from pilotage.sim.ray_engine import RayEngine
from pilotage.sim.specs import TraceSource
from pilotage.training.evolution import EvolutionSettings
from pilotage.training.evolution_directory import EvolutionDirectory
from pilotage.training.evolution_start import prepared_workloads, prior
from pilotage.training.evolving import evolve
from pilotage.training.workers import LocalWorkers, RayWorkers

settings = EvolutionSettings(generations=2, population=4, validation_seeds=1, varied=0)
workloads = [*prepared_workloads([TraceSource(Path("nodes.csv"), Path("small.csv"))], 0, settings)][-1]
run = EvolutionDirectory(Path(sys.argv[1]), "small@1", settings, workloads, prior("packing"))
run.create()
def kill_a_worker(generation):
    import ray
    @ray.remote(max_retries=3)
    def die_once():
        if Path(os.environ["DEATH"]).exists():
            Path(os.environ["DEATH"]).unlink()
            os.kill(os.getpid(), signal.SIGKILL)
    ray.get(die_once.remote())
with RayWorkers(RayEngine(sys.argv[2])) if sys.argv[2:] else LocalWorkers(1) as workers:
    evolve(run, workers, kill_a_worker if sys.argv[2:] else lambda generation: None)
"""


def test_evolution_finds_the_same_on_ray(place: Path, environment: dict[str, str], two_ray_nodes: str) -> None:
    (place / "death").touch()
    for arguments in (("here",), ("there", two_ray_nodes)):
        done = subprocess.run(
            [sys.executable, "-c", EVOLUTION, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=place,
            env=environment,
            timeout=150,
        )
        assert done.returncode == 0, done.stderr[-2000:]
    assert not (place / "death").exists(), "no worker died"
    for name in ("generations.jsonl", "curve.csv", "best/policy.json", "best/weights.safetensors"):
        assert (place / "here" / name).read_bytes() == (place / "there" / name).read_bytes()
