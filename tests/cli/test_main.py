"""The command line as a whole: help, version, exit codes, start-up, and how options are read."""

from __future__ import annotations

import subprocess
import sys

import pytest

from contract.commands import installed_pilotage, pilotage
from pilotage import __version__
from pilotage.model.errors import InputError
from pilotage.sim.scenario import MAX_SEEDS, checked_loads, parse_policies, parse_seeds

COMMANDS = (
    ("compare",),
    ("simulate",),
    ("bound",),
    ("policies",),
    ("doctor",),
    ("trace", "check"),
    ("trace", "describe"),
    ("trace", "convert"),
    ("trace", "generate"),
    ("bench", "plugin"),
    ("bench", "serve"),
    ("bench", "sim"),
    ("train", "dqn"),
    ("train", "search"),
    ("train", "cluster"),
    ("lab", "faults"),
    ("lab", "replay"),
    ("lab", "top"),
    ("gang", "compare"),
    ("gang", "forecast"),
    ("gang", "plan"),
    ("gang", "profile"),
    ("gang", "run"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(command: tuple[str, ...]) -> None:
    done = pilotage(*command, "--help")
    assert (done.code, done.err) == (0, "")
    text = " ".join(done.out.split())
    assert f"Example: pilotage {' '.join(command)}" in text


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in {("trace", "generate")}], ids=" ".join)
def test_every_command_with_a_result_has_json(command: tuple[str, ...]) -> None:
    assert "--json" in pilotage(*command, "--help").out


def test_the_installed_script_tells_its_version() -> None:
    done = installed_pilotage("--version")
    assert (done.code, done.out, done.err) == (0, f"pilotage {__version__}\n", "")


def test_help_names_every_group_and_a_first_command() -> None:
    done = installed_pilotage("--help")
    assert done.code == 0
    assert all(command[0] in done.out for command in COMMANDS)
    assert "pilotage compare --trace openb-like" in " ".join(done.out.split())


@pytest.mark.parametrize("arguments", [("--help",), ("compare", "--help"), ("--version",)])
def test_start_up_loads_nothing_heavy(arguments: tuple[str, ...]) -> None:
    script = (
        f"import sys; sys.argv = ['pilotage', *{arguments!r}]\n"
        "from pilotage.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'numba', 'arro3', 'highspy', 'scipy', 'yaml', 'llvmlite'}\n"
        "sys.stderr.write(repr(sorted(heavy & sys.modules.keys())))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == "[]"


@pytest.mark.parametrize("arguments", [("compar",), ("compare", "--polices", "fgd"), ("simulate", "--seed", "-1")])
def test_bad_usage_is_exit_code_2_without_traceback(arguments: tuple[str, ...]) -> None:
    done = pilotage(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "Traceback" not in done.err
    assert done.err


# Seeds


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("42-46", (42, 43, 44, 45, 46)),
        ("1,5,9", (1, 5, 9)),
        ("7", (7,)),
        ("0", (0,)),
        ("3-3", (3,)),
        (" 1 - 2 , 9 ", (1, 2, 9)),
        ("9,1-2", (9, 1, 2)),
        ("999999999999999999", (999999999999999999,)),
    ],
)
def test_seeds_are_read_in_the_order_given(text: str, seeds: tuple[int, ...]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot read ''"),
        ("x", "cannot read 'x'"),
        ("1,,2", "cannot read ''"),
        ("-1", "cannot read '-1'"),
        ("1.5", "cannot read '1.5'"),
        ("1-2-3", "cannot read '1-2-3'"),
        ("46-42", "'46-42' runs backwards; expected 42-46"),
        ("1-3,2", "a seed is given twice"),
        (f"0-{MAX_SEEDS}", "too many seeds"),
        (f"0-{MAX_SEEDS - 2},{MAX_SEEDS}-{MAX_SEEDS + 5}", "too many seeds"),
        ("1" * 19, "cannot read"),
    ],
)
def test_seeds_that_make_no_sense_are_refused(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_seeds(text)
    assert said in str(caught.value)
    assert caught.value.field == "--seeds"


# Policies and load


def test_policies_are_split_at_commas_and_kept_as_written() -> None:
    assert parse_policies(" fgd , 2*fgd+best-fit,") == ("fgd", "2*fgd+best-fit")


@pytest.mark.parametrize(
    ("text", "said"), [(" , ", "no policy given"), ("fgd,fgd@1", "'fgd@1' is given twice, as fgd and as fgd@1")]
)
def test_policies_that_make_no_sense_are_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_policies(text)


def test_the_load_has_a_default_by_protocol() -> None:
    assert checked_loads(None, "openb") == (1.3,)
    assert checked_loads(None, "timed") == (0.0,)  # the trace's own times
    assert checked_loads((0.0, 1.1), "openb") == (0.0, 1.1)


@pytest.mark.parametrize("load", [float("nan"), float("inf"), -0.1, 100.5])
@pytest.mark.parametrize("protocol", ["openb", "timed"])
def test_a_load_that_makes_no_sense_is_refused(load: float, protocol: str) -> None:
    with pytest.raises(InputError, match="a number from 0 to 100"):
        checked_loads((1.0, load), protocol)


def test_a_timed_run_needs_some_load() -> None:
    with pytest.raises(InputError, match="--load"):
        checked_loads((0.0,), "timed")
