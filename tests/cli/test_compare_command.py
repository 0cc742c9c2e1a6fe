"""`pilotage compare`: what it prints, what it writes, and that neither depends on the machine."""

from __future__ import annotations

import csv
import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from contract.commands import pilotage, small_trace
from pilotage.sim import engines

RUN_KEYS = [
    "trace",
    "policy",
    "seed",
    "load",
    "gpu_allocation_percent",
    "fragmentation_percent",
    "failed_pods",
    "failed_cpu_pods",
    "failed_multi_gpu_pods",
    "lost_before_l0_percent",
    "decisions",
    "seconds",
]
ROW_KEYS = [
    "trace",
    "policy",
    "metric",
    "mean",
    "low",
    "high",
    "baseline",
    "difference",
    "difference_low",
    "difference_high",
    "room_closed_percent",
]
OWN_POLICY = """
from pilotage.policies.api import FeatureSchema

class Tight:
    name = "tight@1"
    features = FeatureSchema(node=("cpu_free",))
    scope = "node"
    normalise = "none"

    def prepare(self, mix):
        return self

    def score(self, batch, out_BN, device_BN):
        out_BN[:] = -batch.node("cpu_free")
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return small_trace(tmp_path_factory.mktemp("trace"))


def compared(*arguments: object) -> dict[str, Any]:
    done = pilotage("compare", *arguments, "--json", "--jobs", 1)
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def rows(found: dict[str, Any], metric: str = "gpu_allocation_percent") -> dict[str, dict[str, Any]]:
    return {row["policy"]: row for row in found["summary"] if row["metric"] == metric}


def test_json_has_the_agreed_keys_and_one_run_per_policy_and_seed(files: list[str]) -> None:
    found = compared(*files, "--policies", "fgd,best-fit", "--seeds", "1,5-6")
    assert set(found) >= {"runs", "summary"}
    assert [(run["trace"], run["policy"], run["seed"]) for run in found["runs"]] == [
        ("small", policy, seed) for policy in ("fgd@1", "best-fit@1") for seed in (1, 5, 6)
    ]
    assert all(list(run)[: len(RUN_KEYS)] == RUN_KEYS for run in found["runs"])
    assert all(set(row) >= set(ROW_KEYS) for row in found["summary"])
    assert all(run["load"] == 1.3 and run["decisions"] > 150 and run["seconds"] > 0 for run in found["runs"])


def test_means_intervals_and_paired_differences_are_those_of_the_runs(files: list[str]) -> None:
    found = compared(*files, "--policies", "best-fit,fgd", "--seeds", "1-4")
    values = {
        policy: [run["gpu_allocation_percent"] for run in found["runs"] if run["policy"] == policy]
        for policy in ("best-fit@1", "fgd@1")
    }
    row = rows(found)["best-fit@1"]
    differences = [a - b for a, b in zip(values["best-fit@1"], values["fgd@1"], strict=True)]
    assert row["baseline"] == "fgd@1"
    assert row["mean"] == pytest.approx(sum(values["best-fit@1"]) / 4, abs=1e-5)
    assert row["difference"] == pytest.approx(sum(differences) / 4, abs=1e-5)
    assert row["low"] < row["mean"] < row["high"]
    assert row["difference_low"] < row["difference"] < row["difference_high"]
    own = rows(found)["fgd@1"]
    assert (own["difference"], own["room_closed_percent"]) == (0.0, 0.0)


def test_one_seed_has_no_interval(files: list[str]) -> None:
    row = rows(compared(*files, "--policies", "fgd", "--seeds", "7"))["fgd@1"]
    assert (row["low"], row["high"], row["difference_low"], row["difference_high"]) == (None, None, None, None)


def test_any_seed_works(files: list[str]) -> None:
    found = compared(*files, "--policies", "fgd", "--seeds", "1000-1009", "--protocol", "openb")
    assert [run["seed"] for run in found["runs"]] == list(range(1000, 1010))
    assert len({run["decisions"] for run in found["runs"]}) > 1  # tuned by draws of their own


def test_fgd_is_run_for_the_bound_but_not_shown_unless_asked_for(files: list[str]) -> None:
    found = compared(*files, "--policies", "best-fit", "--seeds", "1-2")
    assert {run["policy"] for run in found["runs"]} == {row["policy"] for row in found["summary"]} == {"best-fit@1"}
    assert all(run["lost_before_l0_percent"] is not None for run in found["runs"])
    assert rows(found)["best-fit@1"]["room_closed_percent"] is not None
    assert rows(found)["best-fit@1"]["baseline"] == "best-fit@1"


def test_the_baseline_may_be_another(files: list[str]) -> None:
    found = rows(compared(*files, "--policies", "fgd,random", "--seeds", "1-2", "--baseline", "random"))
    assert {row["baseline"] for row in found.values()} == {"random@1"}
    assert found["random@1"]["difference"] == 0.0
    assert found["fgd@1"]["difference"] > 0
    assert found["fgd@1"]["room_closed_percent"] == 0.0  # the room is FGD's, whatever the baseline


def test_a_users_policy_and_a_weighted_sum_stand_beside_the_built_in_ones(files: list[str], tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(OWN_POLICY)
    policies = f"fgd,{path}:Tight,2*fgd+best-fit,2*{path}:Tight+fgd"
    found = compared(*files, "--policies", policies, "--seeds", "1-2")
    names = ["fgd@1", "tight@1", "2*fgd@1+1*best-fit@1", "2*tight@1+1*fgd@1"]
    assert list(rows(found)) == names
    assert len({row["mean"] for row in rows(found).values()}) > 1


def test_results_do_not_depend_on_the_number_of_jobs(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command in the same place, with processes however little there is to do."""
    started = []

    class CountedPool(ProcessPoolExecutor):
        def __init__(self, workers: int, **options: Any) -> None:
            started.append(workers)
            super().__init__(workers, **options)

    monkeypatch.setattr(engines, "ProcessPoolExecutor", CountedPool)
    monkeypatch.chdir(tmp_path)
    arguments = ("compare", *files, "--policies", "fgd,best-fit,random", "--seeds", "1-2", "--out", "out", "--fresh")
    written = {}
    for jobs in (1, 2):
        done = pilotage(*arguments, "--jobs", jobs)
        assert done.code == 0, done.err
        written[jobs] = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()}
    assert started == [2]
    tables = {"openb_allocation.csv", "openb_fragmentation.csv", "openb_fragmentation_ratio.csv"}
    results = {"results.json", "results.csv", "results.parquet", "summary.csv", "timings.json", "report.html"}
    assert set(written[1]) == results | tables
    for name in sorted(set(written[1]) - {"timings.json"}):
        assert written[1][name] == written[2][name], name


def test_parquet_holds_what_the_table_holds(files: list[str], tmp_path: Path) -> None:
    found = compared(*files, "--policies", "fgd,random", "--seeds", "1-2", "--out", tmp_path / "out")
    table = pl.read_parquet(tmp_path / "out" / "results.parquet")
    assert table.to_dicts() == [{key: run[key] for key in table.columns} for run in found["runs"]]
    assert table.schema["mean_wait"] == pl.Float64  # empty here: the type does not depend on the content


def test_several_loads_and_a_price(files: list[str], tmp_path: Path) -> None:
    found = compared(
        *(*files, "--policies", "fgd,random", "--seeds", "1-2", "--load", "0.9,1.3", "--price", "2.5 EUR"),
        *("--out", tmp_path / "out"),
    )
    assert [(run["policy"], run["load"], run["seed"]) for run in found["runs"]] == [
        (policy, load, seed) for load in (0.9, 1.3) for policy in ("fgd@1", "random@1") for seed in (1, 2)
    ]
    assert {(row["policy"], row["load"]) for row in found["summary"]} == {
        (policy, load) for load in (0.9, 1.3) for policy in ("fgd@1", "random@1")
    }


def test_what_was_finished_is_not_run_again(files: list[str], tmp_path: Path) -> None:
    arguments = ("compare", *files, "--policies", "fgd,random", "--jobs", 1, "--out", tmp_path / "out")
    first = pilotage(*arguments, "--seeds", "1-2", "--json")
    assert "already" not in first.err
    again = pilotage(*arguments, "--seeds", "1-3", "--json")
    assert "4 runs were there already" in again.err
    seconds = [{(r["policy"], r["seed"]): r["seconds"] for r in json.loads(d.out)["runs"]} for d in (first, again)]
    assert seconds[0].items() <= seconds[1].items()  # what they took then is remembered
    assert "already" not in pilotage(*arguments, "--seeds", "1-3", "--fresh").err


def test_consolidation_stands_beside_the_plain_run_with_its_cost(files: list[str]) -> None:
    found = compared(
        *(*files, "--policies", "random", "--baseline", "random", "--seeds", "1-2"),
        *("--consolidate", "fragMultiPod", "--budget", 0.1),
    )
    plain, moved = "random@1", "random@1 +fragMultiPod"
    assert list(rows(found)) == [plain, moved]
    assert rows(found, "fragmentation_percent")[moved]["difference"] < 0
    assert list(rows(found, "moved_pods")) == [moved]
    assert rows(found, "moved_pods")[moved]["mean"] > 0
    assert rows(found, "moved_gpus")[moved]["mean"] > 0
    timed = compared(
        *(*files, "--policies", "fgd", "--seeds", "1-2", "--protocol", "timed", "--load", 1.2),
        *("--consolidate", "fragOnePod", "--budget", 0.1, "--every", 0.1),
    )
    assert rows(timed, "moved_gpu_hours")["fgd@1 +fragOnePod"]["mean"] > 0


def test_moving_nothing_changes_nothing(files: list[str]) -> None:
    found = compared(
        *(*files, "--policies", "fgd,random", "--seeds", "1-3", "--load", 0.8, "--consolidate", "fragOnePod"),
        *("--budget", 0),
    )
    for metric in ("gpu_allocation_percent", "fragmentation_percent", "fragmentation_idle_percent", "failed_pods"):
        means = {policy: row["mean"] for policy, row in rows(found, metric).items()}
        assert means["fgd@1"] == means["fgd@1 +fragOnePod"]
        assert means["random@1"] == means["random@1 +fragOnePod"]


def test_the_settings_are_on_record_wherever_they_were_said(files: list[str], tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(
        f"apiVersion: pilotage/v1\nkind: Comparison\ntraces: [{{nodes: {files[1]}, pods: {files[3]}}}]\n"
        "policies: [fgd]\nseeds: [3]\nconsolidation: {method: cosSim, budget: 0.37}\n"
    )
    compared("--scenario", tmp_path / "scenario.yaml", "--out", tmp_path / "out")
    settings = json.loads((tmp_path / "out" / "results.json").read_text())["made_by"]["settings"]
    assert settings["consolidation"] == {"method": "cosSim", "budget": 0.37, "every_hours": None}
    assert (settings["policies"], settings["seeds"], settings["loads"]) == (["fgd@1"], [3], [1.3])
    assert "at most 37 % of the running pods" in (tmp_path / "out" / "report.html").read_text()


def test_the_answer_is_told_with_the_table(files: list[str]) -> None:
    done = pilotage(
        *("compare", *files, "--policies", "fgd,random", "--baseline", "random", "--seeds", "1-4"),
        *("--price", "2 EUR", "--jobs", 1),
    )
    told = " ".join(done.out.split())
    assert "fgd@1 would have kept" in told
    assert "GPUs more busy than random@1 (95 %:" in told
    assert "EUR a year." in told


def test_the_same_command_gives_the_same_report(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    reports = []
    for _ in range(2):
        done = pilotage("compare", *files, "--policies", "fgd,random", "--seeds", "1-2", "--jobs", 1, "--out", "out")
        assert done.code == 0, done.err
        reports.append((tmp_path / "out" / "report.html").read_bytes())
    assert len(reports[0]) > 1000
    assert reports[0] == reports[1]


def test_stored_results_hold_no_times_hosts_or_job_counts(files: list[str], tmp_path: Path) -> None:
    done = pilotage("compare", *files, "--policies", "fgd", "--seeds", "1-2", "--jobs", 1, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    stored = json.loads((tmp_path / "out" / "results.json").read_text())
    assert all("seconds" not in run for run in stored["runs"])
    header = (tmp_path / "out" / "results.csv").read_text().splitlines()[0].split(",")
    assert "seconds" not in header
    assert set(stored["made_by"]) == {"command", "pilotage", "traces", "settings"}
    timings = json.loads((tmp_path / "out" / "timings.json").read_text())
    assert [(row["policy"], row["seed"]) for row in timings] == [("fgd@1", 1), ("fgd@1", 2)]
    assert all(row["seconds"] > 0 for row in timings)


def test_stored_results_do_not_know_the_number_of_jobs(files: list[str], tmp_path: Path) -> None:
    """DESIGN.md: stored results hold no times, hosts or job counts, so they are the same bytes on every machine."""
    pilotage("compare", *files, "--policies", "fgd", "--seeds", "1", "--jobs", 1, "--out", tmp_path / "out")
    assert "--jobs" not in (tmp_path / "out" / "results.json").read_text()


def test_stored_and_printed_results_are_the_same_numbers(files: list[str], tmp_path: Path) -> None:
    found = compared(*files, "--policies", "fgd,random", "--seeds", "1-2", "--out", tmp_path / "out")
    stored = json.loads((tmp_path / "out" / "results.json").read_text())
    assert stored["summary"] == found["summary"]
    assert stored["runs"] == [{k: v for k, v in run.items() if k != "seconds"} for run in found["runs"]]
    with (tmp_path / "out" / "results.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [float(row["gpu_allocation_percent"]) for row in table] == [
        run["gpu_allocation_percent"] for run in found["runs"]
    ]


def test_openb_tables_are_sorted_by_workload_policy_and_seed(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    second, first = small_trace(tmp_path, "zeta"), small_trace(tmp_path / "b", "alpha", pods=120)
    done = pilotage(
        *("compare", *second, "--pods", first[3], "--policies", "first-fit,fgd,random,1*fgd+best-fit"),
        *("--seeds", "10,9", "--jobs", 1, "--out", tmp_path / "out"),
    )
    assert done.code == 0, done.err
    with (tmp_path / "out" / "openb_allocation.csv").open(newline="") as file:
        table = list(csv.reader(file))
    assert table[0] == ["workload", "sc_policy", "tune", "seed", "total_gpus", *map(str, range(131))]
    ids = ["01-Random", "06-FGD", "1*fgd@1+1*best-fit@1", "first-fit"]
    assert [(row[0], row[1], row[3]) for row in table[1:]] == [
        (trace, policy, seed) for trace in ("alpha", "zeta") for policy in ids for seed in ("9", "10")
    ]
    assert {len(row) for row in table} == {136}


def test_tables_of_traces_as_they_are_have_rows_of_one_width(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    one, other = small_trace(tmp_path, "long"), small_trace(tmp_path / "b", "short", pods=60)
    done = pilotage(
        *("compare", *one, "--pods", other[3], "--policies", "fgd", "--seeds", "1", "--load", 0),
        *("--jobs", 1, "--out", tmp_path / "out"),
    )
    assert done.code == 0, done.err
    with (tmp_path / "out" / "openb_fragmentation.csv").open(newline="") as file:
        assert len({len(row) for row in csv.reader(file)}) == 1


def test_a_timed_run_reports_waiting_and_restarts(files: list[str], tmp_path: Path) -> None:
    found = compared(
        *(*files, "--policies", "fgd,random", "--seeds", "1-2", "--protocol", "timed", "--load", 1.5),
        *("--arrivals", 200, "--mtbf", 10, "--mttr", 1, "--out", tmp_path / "out"),
    )
    metrics = {row["metric"] for row in found["summary"]}
    assert {"mean_wait", "p95_wait", "gpu_weighted_wait", "mean_waiting_pods", "restarts"} <= metrics
    assert "lost_before_l0_percent" not in metrics
    assert all(run["protocol"] == "timed" and run["load"] == 1.5 for run in found["runs"])
    assert all(run["restarts"] > 0 and run["mean_wait"] > 0 for run in found["runs"])
    assert not (tmp_path / "out" / "openb_allocation.csv").exists()


def test_a_timed_run_may_use_the_traces_own_times(files: list[str]) -> None:
    found = compared(*files, "--policies", "fgd", "--seeds", "1-2", "--protocol", "timed")
    first, second = ({k: v for k, v in run.items() if k not in ("seed", "seconds")} for run in found["runs"])
    assert first == second  # nothing is drawn
    assert first["decisions"] >= 150


def test_the_table_names_every_policy_and_goes_to_standard_output(files: list[str], tmp_path: Path) -> None:
    done = pilotage("compare", *files, "--policies", "fgd,random", "--seeds", "1-2", "--out", tmp_path / "out")
    assert done.code == 0
    assert "packing bound" in done.out
    assert all(name in done.out for name in ("fgd@1", "random@1", "baseline"))
    assert str(tmp_path / "out" / "report.html") in done.err.replace("\n", "")


def test_a_shipped_trace_is_found_by_name() -> None:
    found = compared("--trace", "openb-like", "--policies", "first-fit", "--seeds", "3")
    assert [run["trace"] for run in found["runs"]] == ["openb-like"]


def test_a_cluster_without_gpu_is_compared_too(tmp_path: Path) -> None:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "web.csv"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\na,8000,8192,0,\nb,8000,8192,0,\n")
    pods.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np1,1000,100,0,0\np2,5000,100,0,0\n")
    found = compared("--nodes", nodes, "--pods", pods, "--policies", "least-allocated", "--seeds", "1", "--load", 0)
    assert found["runs"][0]["failed_pods"] == 0
    assert found["runs"][0]["cpu_allocation_percent"] == pytest.approx(37.5)


def test_the_smallest_number_of_further_nodes_is_found_per_policy(files: list[str], tmp_path: Path) -> None:
    arguments = ("compare", *files, "--policies", "fgd,random", "--seeds", "1-2", "--load", 1.1)
    spec = ("--add-nodes", "cpu=96,memory=384Gi,gpus=8,model=G2")
    done = pilotage(*arguments, *spec, "--json", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    answer = json.loads(done.out)["answers"][0]
    assert (answer["trace"], answer["load"]) == ("small", 1.1)
    assert [(plan["policy"], plan["seed"]) for plan in answer["plans"]] == [
        (policy, seed) for policy in ("fgd@1", "random@1") for seed in (1, 2)
    ]
    assert all(plan["lower_bound"] <= plan["added"] for plan in answer["plans"])
    assert answer["summary"][0]["median"] <= answer["summary"][1]["median"]  # FGD packs better than chance
    assert json.loads((tmp_path / "out" / "plan.json").read_text()) == json.loads(done.out)
    table = pilotage(*arguments, *spec).out
    assert "fgd@1" in table
    assert "Nodes to add" in table


def test_no_answer_for_any_policy_is_a_bad_answer(files: list[str]) -> None:
    arguments = ("compare", *files, "--policies", "fgd", "--seeds", "1", "--load", 1.3)
    done = pilotage(*arguments, "--add-nodes", "cpu=1,memory=1Gi")
    assert done.code == 1
    assert "fgd@1, 1 of 1 seed" in done.out


def test_planning_is_about_pods_that_stay(files: list[str], tmp_path: Path) -> None:
    for extra, said in (
        (("--protocol", "timed", "--add-nodes", "cpu=1,memory=1Gi"), "timed runs let pods wait"),
        (("--add-nodes", "cpu=1"), "--add-nodes"),
        (("--add-nodes", "like=nobody"), "unknown node 'nobody'"),
        (("--add-nodes", "cpu=1,memory=1Gi", "--price", 2), "--price: has no effect on planning"),
        (("--add-nodes", "cpu=1,memory=1Gi", "--consolidate", "cosSim"), "--consolidate: has no effect"),
        (("--add-nodes", "cpu=1,memory=1Gi", "--fresh"), "--fresh: has no effect"),
    ):
        done = pilotage("compare", *files, *extra, "--out", tmp_path / "out")
        assert (done.code, done.out) == (2, "")
        assert said in done.err
        assert not (tmp_path / "out").exists()
