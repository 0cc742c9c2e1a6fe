"""Linear programs: by hand, and bit by bit what scipy gives."""

from __future__ import annotations

import numpy as np
import pytest

from pilotage.model.workload import FloatArray, IntArray
from pilotage.policies import leftover_prices
from pilotage.policies.linear_program import LinearProgram, Solution, Solver, joined, solve


def small(at_least: float) -> LinearProgram:
    """As much of x + 2 y as goes into x + y <= 4 with x = 3 y, x at least so much and both at most 10."""
    return LinearProgram(
        cost_C=np.array([-1.0, -2.0]),
        entries=joined(
            (np.array([1.0, 1.0]), np.array([0, 0]), np.array([0, 1])),
            (np.array([-3.0, 1.0]), np.array([1, 1]), np.array([1, 0])),
        ),
        limit_R=np.array([4.0, 0.0]),
        equalities=1,
        low_C=np.array([at_least, 0.0]),
        high_C=np.array([10.0, 10.0]),
    )


@pytest.mark.parametrize("solver", ["choose", "ipm"])
def test_values_and_prices(solver: Solver) -> None:
    found = solve(small(0.0), solver)
    assert found.status == "optimal"
    assert found.x_C == pytest.approx([3, 1])
    assert found.objective == pytest.approx(-5)
    assert found.price_R == pytest.approx([-1.25, 0.25])


def test_what_cannot_be_is_told() -> None:
    found = solve(small(5.0))
    assert (found.status, found.message) == ("infeasible", "Infeasible")
    assert len(found.x_C) == len(found.price_R) == 0


def scipys(program: LinearProgram, solver: Solver) -> Solution:
    optimize, sparse = pytest.importorskip("scipy.optimize"), pytest.importorskip("scipy.sparse")
    value_Z, row_Z, column_Z = program.entries
    matrix = sparse.csr_array((value_Z, (row_Z, column_Z)), shape=(len(program.limit_R), len(program.cost_C)))
    upper = len(program.limit_R) - program.equalities
    found = optimize.linprog(
        program.cost_C,
        A_ub=matrix[:upper],
        b_ub=program.limit_R[:upper],
        A_eq=matrix[upper:],
        b_eq=program.limit_R[upper:],
        bounds=np.column_stack([program.low_C, program.high_C]),
        method="highs" if solver == "choose" else "highs-ipm",
    )
    if found.status:
        return Solution("infeasible" if found.status == 2 else "failed", "", np.nan, np.zeros(0), np.zeros(0))
    price_R = np.concatenate([found.ineqlin.marginals, found.eqlin.marginals])
    return Solution("optimal", "", found.fun, found.x, price_R)


def packing_programs(monkeypatch: pytest.MonkeyPatch, size_S: IntArray, pods_S: IntArray) -> list[LinearProgram]:
    """Those that prices are made from."""
    seen: list[LinearProgram] = []

    def kept(program: LinearProgram) -> Solution:
        seen.append(program)
        return solve(program)

    monkeypatch.setattr(leftover_prices, "solve", kept)
    leftover_prices.packing_prices(size_S, pods_S, 100)
    return seen


def bits(values: FloatArray) -> bytes:
    return values.astype(np.float64).tobytes()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("solver", ["choose", "ipm"])
def test_the_same_bits_as_scipy(monkeypatch: pytest.MonkeyPatch, seed: int, solver: Solver) -> None:
    """Where scipy has the same HiGHS: degenerate programs have several dual solutions, and policies use them."""
    theirs = pytest.importorskip("scipy.optimize._highspy._core")
    import highspy

    if theirs._Highs().version() != highspy.Highs().version():
        pytest.skip("another HiGHS in scipy")
    random = np.random.default_rng(seed)
    size_S = np.sort(random.choice(np.arange(20, 1000), 6, replace=False))
    programs = packing_programs(monkeypatch, size_S, random.integers(1, 300, 6))
    assert len(programs) > 20
    for program in programs[:8]:
        ours, other = solve(program, solver), scipys(program, solver)
        assert ours.status == other.status
        assert (bits(ours.x_C), bits(ours.price_R)) == (bits(other.x_C), bits(other.price_R))
        assert bits(np.array(ours.objective)) == bits(np.array(other.objective))
