"""`pilotage apply`: simon files run unchanged."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.commands import Done, pilotage
from pilotage.workloads.simon_pods import read_cluster
from pilotage.workloads.simon_writing import scheduler_config

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "examples" / "06_simon"

# End of the published run of each policy: default list, seed 42, ratio 1.3. Amounts in 10^3 milli.
PUBLISHED = {
    "FGDScore": (2532, 5919410, 6189, 138.43, 85.86, 1.23, 27.28, 6.06, 33.73, 292.59, 291.36, 99.58),
    "BestFitScore": (2676, 5785450, 6112, 214.46, 42.30, 4.19, 107.60, 4.60, 53.40, 426.55, 422.36, 99.02),
    "GpuPackingScore": (2794, 5688580, 5972, 155.46, 69.50, 5.02, 222.26, 7.61, 63.56, 523.42, 518.40, 99.04),
    "GpuClusteringScore": (2797, 5686120, 5942, 138.73, 71.29, 6.25, 238.10, 7.76, 63.75, 525.88, 519.63, 98.81),
    "DotProductScore": (2874, 5624470, 5964, 199.87, 37.79, 2.90, 267.07, 4.29, 75.60, 587.53, 584.63, 99.51),
}


def apply(
    *more: object, config: Path = EXAMPLE / "cluster-config.yaml", scheduler: str = "scheduler-config.yaml"
) -> Done:
    return pilotage("apply", "-f", config, "-s", EXAMPLE / scheduler, *more)


def answer(*arguments: object) -> dict[str, Any]:
    done = pilotage("apply", *arguments, "--json")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def end_block(found: dict[str, Any]) -> tuple[float, ...]:
    (analysis,) = found["analyses"]
    *amounts, no_access = analysis["amounts_gpu_milli"].values()
    assert no_access == 0
    allocation = analysis["allocation"]
    return (
        found["unscheduled"],
        allocation["gpu_milli"]["requested"],
        allocation["gpus"]["requested"],
        *(round(amount / 1000, 2) for amount in (*amounts, analysis["idle_gpu_milli"], analysis["frag_gpu_milli"])),
        round(analysis["frag_percent_of_idle"], 2),
    )


@pytest.mark.data
def test_converted_list_reproduces_the_published_ends(
    openb_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilotage.sim.applying.read_cluster", cache(read_cluster))  # five times the same files
    done = pilotage(
        "trace", "convert", "--nodes", openb_data / "openb_node_list_gpu_node.csv",
        "--pods", openb_data / "openb_pod_list_default.csv", "--to", "simon", "--out", tmp_path,
    )  # fmt: skip
    assert done.code == 0, done.err
    config, written = tmp_path / "cluster-config.yaml", tmp_path / "scheduler-config.yaml"
    assert yaml.safe_load(written.read_text()) == scheduler_config("FGDScore")
    for plugin, published in PUBLISHED.items():
        scheduler = tmp_path / f"{plugin}.yaml"
        scheduler.write_text(yaml.safe_dump(scheduler_config(plugin)))
        assert end_block(answer("-f", config, "-s", scheduler)) == published, plugin


@pytest.mark.parametrize("scheduler", ["scheduler-config.yaml", "weighted-scheduler-config.yaml"])
def test_the_example_places_all_its_pods(scheduler: str) -> None:
    done = apply("--strict", scheduler=scheduler)
    assert done.code == 0, done.err
    assert done.out.rstrip().endswith("Success")
    assert "Cluster analysis (InitSchedule)" in done.out
    found = answer("-f", EXAMPLE / "cluster-config.yaml", "-s", EXAMPLE / scheduler)
    assert (found["pods"], found["unscheduled"], found["failed"]) == (3, 0, [])
    assert found["analyses"][0]["allocation"]["gpu_milli"] == {
        "requested": 2300,
        "allocatable": 6000,
        "percent": 38.333333,
    }


@pytest.fixture
def too_much(tmp_path: Path) -> Path:
    """The example, with pods that ask for more than there is."""
    content = yaml.safe_load((EXAMPLE / "cluster-config.yaml").read_text())
    content["spec"]["cluster"]["customConfig"] = str(EXAMPLE / "cluster")
    content["spec"]["customConfig"]["workloadTuningConfig"]["ratio"] = 3
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_unscheduled_pods_fail_a_strict_run_only(too_much: Path) -> None:
    plain, strict = apply(config=too_much), apply("--strict", config=too_much)
    assert (plain.code, strict.code) == (0, 1)
    assert plain.out == strict.out
    last = plain.out.rstrip().splitlines()[-1]
    assert last.endswith("unscheduled pods")
    assert "not enough cpu" in plain.out  # the reason, beside the shape


def test_snapshots_go_to_out(tmp_path: Path) -> None:
    done = apply("--out", tmp_path / "snapshots")
    files = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*"))
    assert files == [
        f"snapshots/InitSchedule/{name}" for name in ("node-snapshot.csv", "pod-snapshot.csv", "pod-snapshot.yaml")
    ]
    assert done.err.count("wrote ") == 3


def test_snapshots_go_where_the_configuration_says(
    tmp_path: Path, too_much: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = yaml.safe_load(too_much.read_text())
    content["spec"]["customConfig"]["exportConfig"] = {"nodeSnapshotCSVFilePrefix": "tables"}
    too_much.write_text(yaml.safe_dump(content))
    monkeypatch.chdir(tmp_path)
    assert apply(config=too_much).code == 0
    assert sorted(path.name for path in Path("tables/InitSchedule").iterdir()) == [
        "node-snapshot.csv",
        "pod-snapshot.csv",
    ]


def test_extended_resources_are_accepted_with_a_note() -> None:
    done = apply("-e", "gpu")
    assert done.code == 0
    assert "note: -e has no effect" in done.err


def test_json_is_all_of_standard_output() -> None:
    found = answer("-f", EXAMPLE / "cluster-config.yaml", "-s", EXAMPLE / "scheduler-config.yaml", "-e", "gpu")
    assert found["notes"] == ["-e has no effect"]
    assert (found["name"], found["policy"], found["nodes"], found["moved"]) == ("two-nodes", "fgd@1", 2, 0)


# Bad input


def refused(*arguments: object) -> str:
    done = pilotage("apply", *arguments)
    assert (done.code, done.out) == (2, ""), done.err
    assert "Traceback" not in done.err
    return " ".join(done.err.split())


def test_without_a_scheduler_configuration() -> None:
    said = refused("-f", EXAMPLE / "cluster-config.yaml")
    assert "-s: a scheduler configuration is needed" in said
    assert "expected a KubeSchedulerConfiguration" in said


def test_configurations_in_each_others_place() -> None:
    said = refused("-f", EXAMPLE / "scheduler-config.yaml", "-s", EXAMPLE / "cluster-config.yaml")
    assert (
        "scheduler-config.yaml, row 3, document 1, kind: is text 'KubeSchedulerConfiguration'; expected Config" in said
    )


def test_missing_files(tmp_path: Path) -> None:
    assert "cannot be read" in refused("-f", tmp_path / "none.yaml", "-s", EXAMPLE / "scheduler-config.yaml")


def test_chart_without_helm(tmp_path: Path, too_much: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = yaml.safe_load(too_much.read_text())
    content["spec"]["appList"] = [{"name": "web", "path": str(tmp_path), "chart": True}]
    too_much.write_text(yaml.safe_dump(content))
    monkeypatch.setenv("PATH", "")
    said = refused("-f", too_much, "-s", EXAMPLE / "scheduler-config.yaml")
    assert "helm is not on PATH; expected helm 3 or later installed" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &a [*a]", "objects.yaml, row 1: the alias *a refers to itself"),
        ("kind: Pod", "objects.yaml, row 1, document 1, metadata.name: is missing"),
        ("kind: 7", "objects.yaml, row 1, document 1, kind: is a number '7'"),
    ],
)
def test_bad_manifests_are_named(tmp_path: Path, too_much: Path, text: str, said: str) -> None:
    content = yaml.safe_load(too_much.read_text())
    content["spec"]["cluster"]["customConfig"] = str(tmp_path / "cluster")
    too_much.write_text(yaml.safe_dump(content))
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "objects.yaml").write_text(text)
    assert said in refused("-f", too_much, "-s", EXAMPLE / "scheduler-config.yaml", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


# trace convert --to simon


def test_conversion_takes_load_and_seed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = pilotage("trace", "convert", "--pods", ROOT / "examples" / "04_manifests", "--to", "simon",
                    "--load", 0.7, "--seed", 3, "--out", out, "--json")  # fmt: skip
    assert done.code == 0, done.err
    assert str(out / "cluster" / "nodes.yaml") in json.loads(done.out)["files"]
    config = yaml.safe_load((out / "cluster-config.yaml").read_text())
    assert config["spec"]["customConfig"]["workloadTuningConfig"] == {"ratio": 0.7, "seed": 3}
    found = answer("-f", out / "cluster-config.yaml", "-s", out / "scheduler-config.yaml")
    assert found["nodes"] == 3


def test_conversion_does_not_mix_with_other_files(tmp_path: Path) -> None:
    arguments = ("trace", "convert", "--pods", ROOT / "examples" / "04_manifests", "--to", "simon", "--out", tmp_path)
    assert pilotage(*arguments).code == 0
    assert pilotage(*arguments).code == 0  # its own files are replaced
    (tmp_path / "cluster" / "pods-001.yaml").write_text("")
    done = pilotage(*arguments)
    assert done.code == 2
    assert f"{tmp_path / 'cluster' / 'pods-001.yaml'}: is in the way" in done.err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--to", "openb", "--load", 1), "--load: has no effect"),
        (("--to", "openb", "--seed", 1), "--seed: has no effect"),
        (("--to", "simon", "--load", "nan"), "--load: nan; expected a number from 0 to 100"),
        (("--to", "simom"), "did you mean 'simon'"),
    ],
)
def test_conversion_refuses(tmp_path: Path, more: tuple[object, ...], said: str) -> None:
    done = pilotage("trace", "convert", "--pods", ROOT / "examples" / "04_manifests", "--out", tmp_path / "out", *more)
    assert done.code == 2
    assert said in done.err
    assert not (tmp_path / "out").exists()


# --add-nodes


def test_further_nodes_are_counted_until_everything_fits(tmp_path: Path) -> None:
    """Six pods of half a node's CPU each on two nodes, and an app of two: three nodes' worth more."""
    place = tmp_path / "cluster"
    place.mkdir()
    node = {"apiVersion": "v1", "kind": "Node", "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "9"}}}
    container = {"name": "main", "resources": {"requests": {"cpu": "4", "memory": "1Gi"}}}
    template = {"metadata": {"labels": {}}, "spec": {"containers": [container]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 6, "template": template}}
    nodes = [{**node, "metadata": {"name": name}} for name in ("a", "b")]
    documents = [*nodes, {**job, "metadata": {"name": "work"}}]
    (place / "all.yaml").write_text(yaml.safe_dump_all(documents))
    app = {**job, "metadata": {"name": "app"}, "spec": {"parallelism": 2, "template": template}}
    (tmp_path / "app.yaml").write_text(yaml.safe_dump(app))
    config = {
        "apiVersion": "simon/v1alpha1",
        "kind": "Config",
        "metadata": {"name": "full"},
        "spec": {
            "cluster": {"customConfig": str(place)},
            "appList": [{"name": "app", "path": str(tmp_path / "app.yaml")}],
        },
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    scheduler = ROOT / "examples" / "06_simon" / "scheduler-config.yaml"
    arguments = ("apply", "-f", tmp_path / "config.yaml", "-s", scheduler, "--strict")
    assert pilotage(*arguments).code == 1
    done = pilotage(*arguments, "--add-nodes", "like=a", "--json")
    assert done.code == 0, done.err
    plan = json.loads(done.out)["plans"][0]
    assert (plan["added"], plan["lower_bound"]) == (2, 2)
    small = pilotage(*arguments, "--add-nodes", "cpu=1,memory=32Gi")
    assert small.code == 1
    assert "fits on no added node" in small.out.replace("\n", " ") or "more than the cluster" in small.out


def test_planning_says_what_has_no_effect_and_what_is_not_simulated(tmp_path: Path, too_much: Path) -> None:
    content = yaml.safe_load(too_much.read_text())
    content["spec"]["cluster"]["customConfig"] = str(tmp_path / "cluster")
    too_much.write_text(yaml.safe_dump(content))
    shutil.copytree(EXAMPLE / "cluster", tmp_path / "cluster")
    container = {"name": "main", "ports": [{"hostPort": 80}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [container]}}
    (tmp_path / "cluster" / "web.yaml").write_text(yaml.safe_dump(pod))
    done = apply("--add-nodes", "cpu=96,memory=384Gi,gpus=8", "-e", "gpu", "--json", config=too_much)
    assert done.code == 0, done.err
    notes = json.loads(done.out)["notes"]
    assert notes == ["-e has no effect", "host ports are not simulated: they keep no pod from a node"]
    assert all(f"note: {note}" in done.err for note in notes)


def test_planning_writes_no_snapshots(tmp_path: Path) -> None:
    files = ("-f", EXAMPLE / "cluster-config.yaml", "-s", EXAMPLE / "scheduler-config.yaml")
    said = refused(*files, "--add-nodes", "cpu=8,memory=8Gi", "--out", tmp_path / "out", "-e", "gpu")
    assert "--out: has no effect beside --add-nodes" in said
    assert not (tmp_path / "out").exists()
