"""Bad input: exit code 2, a message with file, row and field, no traceback, and nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.commands import POLICY, installed_pilotage, pilotage, small_trace

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,8000,16384,2,T4\nn1,8000,16384,2,T4\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1000,1024,1,500\np1,1000,1024,1,1000\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "pods.csv").write_text(PODS)
    return tmp_path


def refused(place: Path, *arguments: object) -> str:
    """Runs the command with --out; what it said."""
    out = place / "out"
    done = pilotage(*arguments, "--out", out)
    assert (done.code, done.out) == (2, ""), done.err
    assert "Traceback" not in done.err
    assert done.err.startswith(("pilotage: error: ", "Usage: "))
    assert not out.exists()
    return done.err


def compare(place: Path, *more: object, nodes: str = "nodes.csv", pods: str = "pods.csv") -> str:
    files = ("--nodes", place / nodes, "--pods", place / pods)
    return refused(place, "compare", *files, "--seeds", "1", "--jobs", 1, *more)


# Tables


@pytest.mark.parametrize(
    ("content", "row", "said"),
    [
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1000,1024,1,500\np1,10", "row 3", "the row has 2 fields"),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1000,1024,1,500\np1,1000,1024,1,", "row 3", "gpu_milli"),
        ("name,cpu_mili,memory_mib,num_gpu,gpu_milli\np0,1,1,0,0", "row 1", "did you mean 'cpu_milli'"),
        ("name,cpu_milli,memory_mib,num_gpu\np0,1,1,0", "row 1", "gpu_milli: the column is missing"),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,-1,1024,0,0", "row 2", "cpu_milli: bad value '-1'"),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1e99,1024,0,0", "row 2", "cpu_milli: bad value '1e99'"),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1,99999999999999999999,0,0", "row 2", "memory_mib"),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1,1,1,1001", "row 2", "gpu_milli: bad value '1001'"),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1,1,63,1000", "row 2", "num_gpu: bad value '63'"),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1,1,1,0", "row 2", "gpu_milli: asks for GPUs but"),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,many,1,0,0", "row 2", "cpu_milli: bad value 'many'"),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,nan,1,0,0", "row 2", "cpu_milli: bad value 'nan'"),
        (
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1,1,0,0\np0,1,1,0,0",
            "row 3",
            "name: the name is used twice",
        ),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\n,1,1,0,0", "row 2", "name: the value is empty"),
        ("name,cpu_milli,memory_mib,num_gpu,gpu_milli\n", "", "has a header and no rows"),
        ("", "", "the file is empty"),
        ("PAR1\x00\x01", "row 1", "control characters"),
    ],
)
def test_a_bad_pod_list_is_refused_with_file_row_and_field(place: Path, content: str, row: str, said: str) -> None:
    (place / "bad.csv").write_text(content)
    message = compare(place, pods="bad.csv")
    assert str(place / "bad.csv") in message
    assert row in message
    assert said in message


@pytest.mark.parametrize(
    ("content", "row", "said"),
    [
        (NODES + "n2,8000", "row 4", "the row has 2 fields"),
        (NODES + "n0,8000,1,0,", "row 4", "sn: the name is used twice"),
        (NODES + "n2,8000,1,-2,T4", "row 4", "gpu: bad value '-2'"),
        (NODES + "n2,8000,1,64,T4", "row 4", "gpu: bad value '64'"),
        (NODES.replace("memory_mib", "memory"), "row 1", "did you mean 'memory_mib'"),
    ],
)
def test_a_bad_node_list_is_refused_with_file_row_and_field(place: Path, content: str, row: str, said: str) -> None:
    (place / "bad.csv").write_text(content)
    message = compare(place, nodes="bad.csv")
    assert f"{place / 'bad.csv'}, {row}" in message
    assert said in message


@pytest.mark.parametrize(
    ("path", "said"), [("gone.csv", "no such file"), ("gone.yaml", "gone.yaml"), ("x.txt", "x.txt")]
)
def test_a_missing_file_is_named(place: Path, path: str, said: str) -> None:
    assert said in compare(place, pods=path)


def test_a_directory_without_manifests_is_named(place: Path) -> None:
    (place / "folder").mkdir()
    assert str(place / "folder") in compare(place, pods="folder")


def test_a_directory_named_like_a_table_is_named(place: Path) -> None:
    (place / "folder.csv").mkdir()
    assert str(place / "folder.csv") in compare(place, nodes="folder.csv")


def test_a_file_that_is_no_text_is_named(place: Path) -> None:
    (place / "bad.csv").write_bytes(b"name,cpu_milli\n\xff\xfe,1\n")
    assert f"{place / 'bad.csv'}, row 2: is not UTF-8" in compare(place, pods="bad.csv")


def test_bad_yaml_is_named(place: Path) -> None:
    (place / "bad.yaml").write_text("kind: Pod\nmetadata: [\n")
    assert str(place / "bad.yaml") in compare(place, pods="bad.yaml")


def test_two_traces_of_one_stem_are_refused(place: Path) -> None:
    (place / "other").mkdir()
    (place / "other" / "pods.csv").write_text(PODS)
    message = compare(place, "--pods", place / "other" / "pods.csv")
    assert "two traces are named 'pods'" in message


def test_no_trace_at_all_is_told(place: Path) -> None:
    assert "no trace given" in refused(place, "compare", "--seeds", "1")


def test_an_unknown_trace_comes_with_a_hint(place: Path) -> None:
    assert "did you mean 'openb-like'" in refused(place, "compare", "--trace", "openb-lik")


# Options


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--policies", "fdg", "did you mean 'fgd'"),
        ("--policies", "2*fdg+best-fit", "did you mean 'fgd'"),
        ("--policies", ",", "no policy given"),
        ("--policies", "fgd,fgd", "given twice"),
        ("--policies", "1e400*fgd+best-fit", "1e400"),
        ("--baseline", "fdg", "did you mean 'fgd'"),
        ("--baseline", "round-robin", "does not take part"),
        ("--seeds", "x", "--seeds"),
        ("--seeds", "5-1", "runs backwards"),
        ("--seeds", "1,1", "twice"),
        ("--seeds", "", "--seeds"),
        ("--load", "nan", "--load"),
        ("--load", "inf", "--load"),
        ("--load", "-1", "--load"),
        ("--load", "1e9", "--load"),
        ("--load", "much", "--load"),
        ("--protocol", "opneb", "--protocol"),
        ("--jobs", "0", "--jobs"),
    ],
)
def test_a_bad_option_is_named(place: Path, option: str, value: str, said: str) -> None:
    assert said in compare(place, option, value)


def test_a_trace_without_times_cannot_run_over_time(place: Path) -> None:
    assert "has no times" in compare(place, "--protocol", "timed")


def test_a_load_that_leaves_no_pod_is_refused(place: Path) -> None:
    assert "pod" in compare(place, "--load", "0.0001")


def test_pods_without_gpu_cannot_be_tuned_to_a_gpu_load(place: Path) -> None:
    (place / "web.csv").write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1000,1024,0,0\n")
    assert "expected load 0" in compare(place, "--load", "1.3", pods="web.csv")


def test_a_seed_beyond_64_bits_is_refused(place: Path) -> None:
    files = ("--nodes", place / "nodes.csv", "--pods", place / "pods.csv")
    assert "--seed" in refused(place, "simulate", *files, "--seed", 10**30)


def test_an_unknown_pod_to_explain_comes_with_a_hint(place: Path) -> None:
    files = ("--nodes", place / "nodes.csv", "--pods", place / "pods.csv", "--load", 0)
    done = pilotage("simulate", *files, "--explain", "p7")
    assert done.code == 2
    assert "unknown pod 'p7'; did you mean" in done.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--top", "3"), "--top: has no effect without --explain"),
        (("--mttr", "3"), "--mttr: has no effect on runs of the OpenB protocol"),
        (("--protocol", "timed", "--mttr", "3"), "--mttr: has no effect where nodes never fail"),
    ],
)
def test_an_option_without_effect_is_refused(options: tuple[str, ...], said: str) -> None:
    done = pilotage("simulate", "--trace", "openb-like", *options)
    assert done.code == 2
    assert said in done.err


def test_scales_that_are_no_numbers_are_refused() -> None:
    done = pilotage("bench", "sim", "--scales", "x", "--json")
    assert (done.code, done.out) == (2, "")
    assert "--scales" in done.err


# A pod that fits nowhere is an outcome, not an error


def test_a_pod_that_fits_nowhere_is_refused_and_counted(place: Path) -> None:
    (place / "big.csv").write_text(PODS + "big,9000,1024,0,0\n")
    files = ("--nodes", place / "nodes.csv", "--pods", place / "big.csv", "--load", 0)
    done = pilotage("simulate", *files, "--policy", "best-fit", "--json")
    assert done.code == 0
    assert '"failed_pods": 1' in done.out
    assert '"failures": {"cpu": {"not enough cpu": 1}}' in done.out


# Users' policies


def own_policy(place: Path, content: str) -> Path:
    path = place / "mine.py"
    path.write_text(content)
    return path


def test_the_policy_that_the_others_are_made_of_is_right(place: Path) -> None:
    path = own_policy(place, POLICY)
    files = ("--nodes", place / "nodes.csv", "--pods", place / "pods.csv")
    done = pilotage("compare", *files, "--seeds", "1", "--jobs", 1, "--policies", f"{path}:Mine", "--json")
    assert done.code == 0, done.err


def test_a_file_that_fails_is_named(place: Path) -> None:
    path = own_policy(place, "raise RuntimeError('boom')")
    message = compare(place, "--policies", f"{path}:Mine")
    assert str(path) in message
    assert "RuntimeError: boom" in message


def test_a_class_that_is_not_there_comes_with_a_hint(place: Path) -> None:
    path = own_policy(place, POLICY)
    message = compare(place, "--policies", f"{path}:Mien")
    assert str(path) in message
    assert "did you mean 'Mine'" in message


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("out_BN[:] = 0", "raise ValueError('no idea')", "no idea"),
        ("out_BN[:] = 0", "out_BN[:] = np.nan", "not a finite number"),
        ("out_BN[:] = 0", "out_BN[:, 0] = np.inf", "not a finite number"),
        ("out_BN[:] = 0", "out_BN[:] = 0; device_BN[:] = 7", "device 7 has no room"),
        ("out_BN[:] = 0", "out_BN[:] = 0; batch.pod_BF[:] = 0", ""),
        ("out_BN[:] = 0", "out_BN[:] = 0; batch.node_BNF[:] = 0", ""),
        ("out_BN[:] = 0", "out_BN[:] = 0; batch.feasible_BN[:] = True", ""),
        ("out_BN[:] = 0", "out_BN[:] = batch.node('cpu_fre')", "did you mean 'cpu_free'"),
        ("return self", "raise KeyError('mix')", "KeyError"),
        ("return self", "return None", ""),
        ('    name = "mine@1"', '    name = "Mine"', "expected name@version"),
        ('    scope = "node"', "    def __init__(self): raise RuntimeError('unmade')", "unmade"),
    ],
)
def test_a_policy_that_breaks_its_contract_is_named(place: Path, right: str, wrong: str, said: str) -> None:
    assert right in POLICY
    path = own_policy(place, POLICY.replace(right, wrong))
    message = compare(place, "--policies", f"{path}:Mine")
    assert "mine" in message
    assert said in message


# What is there already stays


def test_results_that_are_there_survive_a_bad_command(place: Path) -> None:
    out = place / "out"
    out.mkdir()
    (out / "results.json").write_text("mine")
    files = ("--nodes", place / "nodes.csv", "--pods", place / "pods.csv")
    done = pilotage("compare", *files, "--policies", "fdg", "--out", out)
    assert done.code == 2
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [("results.json", "mine")]


@pytest.mark.parametrize("command", ["compare", "simulate"])
def test_a_file_in_the_way_of_the_results_is_named_and_kept(place: Path, command: str) -> None:
    (place / "taken").write_text("mine")
    files = ("--nodes", place / "nodes.csv", "--pods", place / "pods.csv")
    done = pilotage(command, *files, "--out", place / "taken")
    assert done.code == 2
    assert str(place / "taken") in done.err
    assert (place / "taken").read_text() == "mine"


def test_the_installed_script_says_the_same_without_a_traceback(place: Path) -> None:
    (place / "bad.csv").write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,-1,1024,0,0\n")
    done = installed_pilotage("compare", "--nodes", "nodes.csv", "--pods", "bad.csv", "--out", "out", cwd=place)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "pilotage: error: bad.csv, row 2, cpu_milli: bad value '-1'; expected a whole number from 0 to 1000000000\n"
    )
    assert not (place / "out").exists()


def test_an_error_in_another_process_is_told_the_same_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = own_policy(tmp_path, POLICY.replace("out_BN[:] = 0", "out_BN[:] = np.nan"))
    message = refused(
        tmp_path,
        *("compare", *small_trace(tmp_path)),
        *("--policies", f"{path}:Mine,fgd", "--seeds", "1-2", "--jobs", 2),
    )
    assert message == "pilotage: error: mine@1: a candidate's score is not a finite number\n"
