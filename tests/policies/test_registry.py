"""Policies by name: built-in, installed, in a module, in a file, in a sum."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
import written_policies as written

from pilotage.kernels.features import GANG_COLUMNS, POD_GANG_COLUMNS
from pilotage.model.errors import InputError, PilotageError, PolicyError, UnknownNameError
from pilotage.policies import registry
from pilotage.policies.api import FeatureSchema
from pilotage.policies.checkpoints import write_checkpoint
from pilotage.policies.priced import Priced
from pilotage.policies.registry import GROUP, checked_instance, find_checkpoint, find_policy, registered
from pilotage.policies.weighted import WeightedSum
from reference.random_weights import MLP, PRICES, random_checkpoint

BUILT_IN = {
    "random",
    "round-robin",
    "first-fit",
    "least-allocated",
    "most-allocated",
    "balanced-allocation",
    "dot-product",
    "gpu-clustering",
    "gpu-packing",
    "best-fit",
    "fgd",
}
HERE = Path(__file__).with_name("written_policies.py")
OWN = Path(__file__).resolve().parent.parent.parent / "examples" / "02_own_policy.py"


@pytest.fixture
def fresh_registry() -> Iterator[None]:
    registered.cache_clear()
    yield
    registered.cache_clear()


def test_the_eleven_policies_are_registered_with_a_version() -> None:
    assert {name for name in registered() if name.removesuffix("@1") in BUILT_IN} == {f"{n}@1" for n in BUILT_IN}


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_a_name_finds_its_newest_version_and_a_version_itself(name: str) -> None:
    assert find_policy(name) is find_policy(f"{name}@1") is find_policy(f" {name} ")
    assert find_policy(name).name == f"{name}@1"


def test_the_newest_version_wins_by_number_not_by_text(monkeypatch: pytest.MonkeyPatch, fresh_registry: None) -> None:
    class Tenth(written.Tight):
        name = "tight@10"

    class Ninth(written.Tight):
        name = "tight@9"

    monkeypatch.setattr(registry, "HEURISTICS", (Ninth(), Tenth()))
    assert find_policy("tight").name == "tight@10"
    assert find_policy("tight@9").name == "tight@9"


@pytest.mark.parametrize(
    ("text", "hint"),
    [("fdg", "did you mean 'fgd'"), ("bestfit", "did you mean 'best-fit'"), ("fgd@7", "fgd"), ("", "known: ")],
)
def test_an_unknown_name_comes_with_a_hint(text: str, hint: str) -> None:
    with pytest.raises(UnknownNameError, match="unknown policy") as caught:
        find_policy(text)
    assert hint in str(caught.value)


def test_an_unknown_class_comes_with_those_of_the_file_and_not_with_what_it_imports() -> None:
    with pytest.raises(UnknownNameError, match="unknown class") as caught:
        find_policy(f"{OWN}:Nothing")
    assert str(caught.value).endswith("known: TightestCpu")


# Installed packages


def test_a_policy_of_an_installed_package_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_registry: None
) -> None:
    """A real distribution on the path: its metadata name the entry point, its module holds the class."""
    (tmp_path / "installed_policy.py").write_text(HERE.read_text().replace('"tight@1"', '"installed@3"'))
    metadata = tmp_path / "installed_policy-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: installed-policy\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{GROUP}]\ntight = installed_policy:Tight\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "installed_policy", raising=False)
    assert find_policy("installed").name == "installed@3"
    assert "installed@3" in registered()


def with_entry_point(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    entry = EntryPoint("mine", value, GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: EntryPoints([entry]).select(group=group))


def test_an_entry_point_that_keeps_no_contract_is_named(monkeypatch: pytest.MonkeyPatch, fresh_registry: None) -> None:
    with_entry_point(monkeypatch, "written_policies:BadScope")
    with pytest.raises(PolicyError, match="entry point mine: scope 'pod'"):
        registered()


def test_an_entry_point_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch, fresh_registry: None) -> None:
    with_entry_point(monkeypatch, "no_such_module_here:Policy")
    with pytest.raises(PilotageError, match="mine"):
        registered()


# Modules and files


def test_a_class_in_a_module_or_a_file_is_found() -> None:
    assert find_policy("written_policies:Tight").name == "tight@1"
    assert find_policy(f"{HERE}:Tight").name == "tight@1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no_such_module:Tight", "cannot import 'no_such_module'"),
        ("/no/such/file.py:Tight", "/no/such/file.py: no such file"),
        ("written_policies:Tigth", "did you mean 'Tight'"),
        (f"{HERE}:BadName", "expected name@version"),
        (f"{HERE}:NoScore", "a policy needs prepare, score"),
        (f"{HERE}:FeatureSchema", "a policy needs name"),
    ],
)
def test_what_is_wrong_with_a_users_policy_is_said(text: str, said: str) -> None:
    with pytest.raises(PilotageError) as caught:
        find_policy(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "features",
    [FeatureSchema(pod=(column,)) for column in POD_GANG_COLUMNS]
    + [FeatureSchema(node=("cpu_free", column)) for column in GANG_COLUMNS],
)
def test_columns_about_gangs_need_the_scope_cluster(features: FeatureSchema) -> None:
    """They change though the node does not, so scores could not be kept."""
    policy = type("Near", (written.Tight,), {"features": features})
    with pytest.raises(PolicyError, match=r"near\.py: reads columns about gangs.*expected scope 'cluster'"):
        checked_instance(policy, "near.py")
    whole = type("Near", (written.Tight,), {"features": features, "scope": "cluster"})
    assert checked_instance(whole, "near.py").features == features


@pytest.mark.parametrize("content", ["raise RuntimeError('boom')", "class Tight(:"])
def test_a_file_that_fails_on_import_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "boom.py"
    path.write_text(content)
    with pytest.raises(InputError, match="fails when imported") as caught:
        find_policy(f"{path}:Tight")
    assert caught.value.file == path


def test_a_module_that_fails_on_import_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "boom_module.py").write_text("raise RuntimeError('boom')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match="boom_module"):
        find_policy("boom_module:Tight")


def test_a_class_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    path = tmp_path / "unmade.py"
    path.write_text("class Policy:\n    def __init__(self):\n        raise RuntimeError('no')\n")
    with pytest.raises(PilotageError, match=r"unmade\.py"):
        find_policy(f"{path}:Policy")


# Sums


@pytest.mark.parametrize(
    ("text", "name", "weights"),
    [
        ("2*fgd+best-fit", "2*fgd@1+1*best-fit@1", (2.0, 1.0)),
        (" 0.5 * fgd + .25*best-fit ", "0.5*fgd@1+0.25*best-fit@1", (0.5, 0.25)),
        ("1e2*fgd@1+random", "100*fgd@1+1*random@1", (100.0, 1.0)),
        ("0*fgd+best-fit", "0*fgd@1+1*best-fit@1", (0.0, 1.0)),
        ("3*fgd", "3*fgd@1", (3.0,)),
    ],
)
def test_sums_are_read_with_their_weights(text: str, name: str, weights: tuple[float, ...]) -> None:
    found = find_policy(text)
    assert isinstance(found, WeightedSum)
    assert (found.name, found.weights) == (name, weights)


def test_a_sum_may_hold_a_users_policy() -> None:
    assert find_policy(f"2*{HERE}:Tight+fgd").name == "2*tight@1+1*fgd@1"
    assert find_policy(f"{HERE}:Tight+2*fgd").name == "1*tight@1+2*fgd@1"


def test_a_sum_of_a_users_policy_needs_no_weights() -> None:
    assert find_policy(f"{HERE}:Tight+fgd").name == "1*tight@1+1*fgd@1"


@pytest.mark.parametrize(
    "text", ["fgd+", "2*", "*fgd", "-1*fgd+best-fit", "0*fgd+0*best-fit", "2*fgd best-fit", "2**fgd"]
)
def test_a_sum_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        find_policy(text)


def test_a_weight_without_limit_is_refused() -> None:
    with pytest.raises(InputError, match="1e400"):
        find_policy("1e400*fgd+best-fit")


def test_an_unknown_part_of_a_sum_comes_with_a_hint() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'fgd'"):
        find_policy("2*fdg+best-fit")


# Checkpoints


ODD_PLACES = ["best", "runs/best", "a+b/best", "2*fgd+best", "with space/best", "a:b", "1e5+2*x+y"]


@pytest.mark.parametrize("place", ODD_PLACES)
def test_a_directory_with_a_checkpoint_is_a_policy(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_checkpoint(Path(place), random_checkpoint(MLP))
    for text in (place, f"./{place}", str(tmp_path / place), f" {place}/ "):
        assert find_policy(text).name == "random-mlp@1"
        assert not isinstance(find_policy(text), WeightedSum)


@pytest.mark.parametrize("place", ODD_PLACES)
def test_a_directory_may_be_part_of_a_sum(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(tmp_path / place, random_checkpoint(MLP))
    path = tmp_path / place
    assert find_policy(f"2*{path}+fgd").name == "2*random-mlp@1+1*fgd@1"
    assert find_policy(f"fgd + 0.5 * {path}").name == "1*fgd@1+0.5*random-mlp@1"
    assert find_policy(f"{path}+{path}+3*best-fit").name == "1*random-mlp@1+1*random-mlp@1+3*best-fit@1"
    monkeypatch.chdir(tmp_path)
    assert find_policy(f"3*./{place}+fgd").name == "3*random-mlp@1+1*fgd@1"


def test_a_file_with_plus_signs_in_its_path_may_be_part_of_a_sum(tmp_path: Path) -> None:
    (tmp_path / "a+b.py").write_text(HERE.read_text())
    assert find_policy(f"2*{tmp_path}/a+b.py:Tight+fgd").name == "2*tight@1+1*fgd@1"


def test_a_registered_name_goes_before_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_checkpoint(Path("fgd"), random_checkpoint(MLP))
    assert find_policy("fgd").name == "fgd@1"
    assert find_policy("./fgd").name == "random-mlp@1"


@pytest.mark.parametrize("text", ["no/such/place", "/", "2*no/such/place+fgd", "x" * 5000 + "/y"])
def test_a_path_without_a_checkpoint_is_told_so(text: str) -> None:
    with pytest.raises(InputError, match=r"no checkpoint there; expected a directory with policy\.json"):
        find_policy(text)


def test_the_directory_of_a_training_leads_to_its_best_checkpoint(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "run" / "best", random_checkpoint(MLP))
    with pytest.raises(InputError, match=f"no checkpoint there; expected {tmp_path / 'run' / 'best'}"):
        find_policy(str(tmp_path / "run"))


def test_a_damaged_checkpoint_is_refused_by_its_file(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "best", random_checkpoint(MLP))
    (tmp_path / "best" / "weights.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match=r"best/weights\.safetensors"):
        find_policy(str(tmp_path / "best"))


def test_a_checkpoint_may_not_take_a_registered_name(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "best", random_checkpoint(PRICES, name="fgd@1"))
    with pytest.raises(PolicyError, match=r"best: the name fgd@1 is taken"):
        find_policy(str(tmp_path / "best"))


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_registry: None) -> Path:
    """A package that ships two versions of a policy."""
    monkeypatch.setattr(registry, "SHIPPED", tmp_path / "shipped")
    for version in (1, 2):
        made = random_checkpoint(PRICES, seed=version, name=f"shipped-one@{version}")
        write_checkpoint(tmp_path / "shipped" / f"shipped-one-{version}", made)
    return tmp_path / "shipped"


def test_shipped_checkpoints_are_registered(shipped: Path) -> None:
    assert isinstance(find_policy("shipped-one"), Priced)
    assert find_policy("shipped-one").name == "shipped-one@2"
    assert find_policy("shipped-one@1").name == "shipped-one@1"
    assert find_policy("2*shipped-one+fgd").name == "2*shipped-one@2+1*fgd@1"


def test_a_copy_of_a_shipped_one_is_welcome_and_another_of_its_name_is_not(shipped: Path, tmp_path: Path) -> None:
    assert find_policy(str(shipped / "shipped-one-1")).name == "shipped-one@1"
    write_checkpoint(tmp_path / "tuned", random_checkpoint(PRICES, seed=9, name="shipped-one@2"))
    with pytest.raises(PolicyError, match="the name shipped-one@2 is taken"):
        find_policy(str(tmp_path / "tuned"))


def test_the_checkpoint_of_a_policy_is_found_as_the_policy_is(shipped: Path, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "best", random_checkpoint(MLP))
    assert find_checkpoint("shipped-one").name == "shipped-one@2"
    assert find_checkpoint(str(tmp_path / "best")).name == "random-mlp@1"
    with pytest.raises(InputError, match="fgd@1 is not learned"):
        find_checkpoint("fgd")
    with pytest.raises(InputError, match="no such file"):
        find_checkpoint("shiped-one")
