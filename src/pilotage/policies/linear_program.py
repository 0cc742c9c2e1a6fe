"""A linear program solved by HiGHS: sparse arrays in, primal and dual values out.

Minimise cost . x where A x <= limit in the first rows, A x = limit in the others, and low <= x <= high.

Dual values decide what policies do, and of a degenerate program there are several: results depend on the version of
HiGHS, the order of the matrix's entries and the options. All three are what scipy.optimize.linprog 1.17 uses, by which
the shipped parameters were found; tests/policies/test_linear_program.py compares the two bit by bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from pilotage.model.workload import FloatArray, IntArray

if TYPE_CHECKING:
    from highspy import HighsLp

Solver = Literal["choose", "ipm"]


class Entries(NamedTuple):
    """Those of the matrix that are not 0; no place appears twice."""

    value_Z: FloatArray
    row_Z: IntArray
    column_Z: IntArray


class LinearProgram(NamedTuple):
    """All bounds are finite, so that the solver can tell "infeasible" from "unbounded"."""

    cost_C: FloatArray
    entries: Entries
    limit_R: FloatArray
    equalities: int  # how many of the last rows
    low_C: FloatArray
    high_C: FloatArray


class Solution(NamedTuple):
    """The best values, or why there are none."""

    status: Literal["optimal", "infeasible", "failed"]
    message: str  # of the solver
    objective: float
    x_C: FloatArray
    price_R: FloatArray  # by how much the objective changes per unit of the row's limit


def joined(*blocks: tuple[FloatArray, IntArray, IntArray]) -> Entries:
    """Blocks of (values, rows, columns) as one."""
    return Entries(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))


def solve(program: LinearProgram, solver: Solver = "choose") -> Solution:
    from highspy import HighsModelStatus, HighsStatus, _Highs

    highs = _Highs()
    for name, value in (("output_flag", False), ("log_to_console", False), ("presolve", "on"), ("solver", solver)):
        highs.setOptionValue(name, value)
    loaded = highs.passModel(_highs_model(program))
    done = HighsStatus.kError if loaded == HighsStatus.kError else highs.run()
    status = highs.getModelStatus()
    message = highs.modelStatusToString(status)
    if done == HighsStatus.kError or status != HighsModelStatus.kOptimal:
        infeasible = done != HighsStatus.kError and status == HighsModelStatus.kInfeasible
        nothing = np.zeros(0)
        return Solution("infeasible" if infeasible else "failed", message, np.nan, nothing, nothing)
    found = highs.getSolution()
    objective = highs.getInfo().objective_function_value
    return Solution("optimal", message, objective, np.array(found.col_value), np.array(found.row_dual))


def _highs_model(program: LinearProgram) -> HighsLp:
    from highspy import HighsLp, MatrixFormat, kHighsInf

    rows, columns = len(program.limit_R), len(program.cost_C)
    value_Z, row_Z, column_Z = program.entries
    order = np.lexsort((row_Z, column_Z))
    lowest_R = np.full(rows, -kHighsInf)
    lowest_R[rows - program.equalities :] = program.limit_R[rows - program.equalities :]
    model = HighsLp()
    model.num_col_ = model.a_matrix_.num_col_ = columns
    model.num_row_ = model.a_matrix_.num_row_ = rows
    model.a_matrix_.format_ = MatrixFormat.kColwise
    model.a_matrix_.start_ = np.append(0, np.cumsum(np.bincount(column_Z, minlength=columns))).astype(np.int32)
    model.a_matrix_.index_ = row_Z[order].astype(np.int32)
    model.a_matrix_.value_ = value_Z[order]
    model.col_cost_ = program.cost_C
    model.col_lower_ = program.low_C
    model.col_upper_ = program.high_C
    model.row_lower_ = lowest_R
    model.row_upper_ = program.limit_R
    return model
