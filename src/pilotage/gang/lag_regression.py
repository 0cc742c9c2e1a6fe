"""Ridge regression on recent values, values days and weeks before, and the calendar, refitted on the way.

One regression per step ahead, for the difference to the last value. All variants (which columns, how strongly held
back) are solved from the same sums of products, which grow as values come in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from pilotage.gang.forecasting import DAY, WEEK, check_rows
from pilotage.gang.series import Series
from pilotage.model.workload import BoolArray, FloatArray, IntArray

REFIT: Final = 48  # rows between fits
LAGS: Final = 12
SOFTENING: Final = 0.02  # of the mean, added before logarithms
FEWEST: Final = 100  # moments to fit on; before there are so many, the last value is the forecast
_HARMONICS: Final = ((DAY, 4), (WEEK, 3))
# Group, period, periods averaged over, shifts of the target: values so long before it, and before the present.
_SEASONS: Final = (
    ("day", DAY, 1, (-2, -1, 0, 1, 2)),
    ("days", DAY, 7, (0,)),
    ("week", WEEK, 1, (-1, 0, 1)),
    ("weeks", WEEK, 4, (-1, 0, 1)),
)
_UNUSUAL: Final = (("unusual-day", DAY), ("unusual-week", WEEK))
_UNUSUAL_LAGS: Final = (2, 3, 4, 6, 8, 12)


class Variant(NamedTuple):
    """Groups of columns, how strongly coefficients are held back, and whether ratios count instead of differences."""

    name: str
    groups: frozenset[str]
    ridge: float
    ratios: bool = False  # only where all values are positive


_DAYS: Final = frozenset({"lags", "day", "days"})
_ALL: Final = _DAYS | {"week", "weeks"}
_WEEK: Final = frozenset({"lags", "day", "week"})
_UNUSUAL_WEEK: Final = _WEEK | {"weeks", "unusual-week", "unusual-day"}
_COLUMNS: Final = {
    "all": _ALL,
    "all-calendar": _ALL | {"calendar"},
    "week": _WEEK,
    "week-unusual": _UNUSUAL_WEEK,
    "days": _DAYS,
    "days-calendar": _DAYS | {"calendar"},
    "lags-calendar": frozenset({"lags", "calendar"}),
}
VARIANTS: Final = tuple(
    Variant(f"{name}-{ridge:g}" + ("-ratios" if ratios else ""), groups, ridge, ratios)
    for ratios in (False, True)
    for name, groups in _COLUMNS.items()
    for ridge in (1.0, 10.0)
)


class Columns(NamedTuple):
    """Inputs of all moments (O: moments, the number of values known there) for one step ahead."""

    input_OF: FloatArray
    group_F: tuple[str, ...]
    since_F: IntArray  # the first moment at which a column has what it is about


def columns(series: Series, ahead: int) -> Columns:
    """Inputs at every moment; a value that is not there yet counts as the last one."""
    known_O = np.arange(1, len(series) + 1)
    last_O = series.value_N[known_O - 1]
    now_O = series.time_N[known_O - 1]
    target_O = now_O + (ahead + 1) * series.step
    found: list[FloatArray] = []
    groups: list[str] = []
    since: list[int] = []

    def value_at(time_O: FloatArray, period: float, times: int = 1) -> FloatArray:
        """Mean of the values one, two, .. periods before a time, of those that are there."""
        total_O, count_O = np.zeros(len(known_O)), np.zeros(len(known_O))
        for k in range(1, times + 1):
            at_O = series.before(time_O - k * period, known_O)
            total_O += np.where(at_O >= 0, series.value_N[at_O], 0.0)
            count_O += at_O >= 0
        return np.where(count_O > 0, total_O / np.maximum(count_O, 1.0), np.nan)

    def add(group: str, column_O: FloatArray) -> None:
        missing_O = np.isnan(column_O)
        found.append(np.where(missing_O, 0.0, column_O))
        groups.append(group)
        since.append(int(np.argmin(missing_O)) if not missing_O.all() else len(column_O))

    def lag(k: int) -> FloatArray:
        return np.where(known_O >= k, series.value_N[np.maximum(known_O - k, 0)], np.nan)

    for k in range(2, LAGS + 1):
        add("lags", lag(k) - last_O)
    for group, period, times, shifts in _SEASONS:
        for shift in shifts:
            add(group, value_at(target_O + shift * series.step, period, times) - last_O)
        add(group, value_at(now_O, period, times) - last_O)
    for group, period in _UNUSUAL:
        for k in _UNUSUAL_LAGS:
            add(group, lag(k) - value_at(now_O - (k - 1) * series.step, period))
    for period, harmonics in _HARMONICS:
        for k in range(1, harmonics + 1):
            angle_O = 2 * np.pi * k * target_O / period
            add("calendar", np.sin(angle_O))
            add("calendar", np.cos(angle_O))
    add("level", np.ones(len(known_O)))
    return Columns(np.stack(found, axis=1), tuple(groups), np.array(since))


@dataclass(frozen=True)
class LagRegression:
    """One of the variants as a forecaster."""

    variant: Variant = VARIANTS[0]

    @property
    def name(self) -> str:
        return f"regression-{self.variant.name}"

    def roll(self, series: Series, first: int, rows: int, horizon: int) -> FloatArray:
        forecast_TH: FloatArray = roll_variants((self.variant,), series, first, rows, horizon)[0]
        return forecast_TH


def roll_variants(variants: Sequence[Variant], series: Series, first: int, rows: int, horizon: int) -> FloatArray:
    """Forecasts of each variant (V x T x H)."""
    check_rows(series, first, rows)
    known = series.until(first + rows - 1)
    # Values before `first` decide whether ratios mean anything, and what is added so that small values do not rule.
    added = SOFTENING * float(known.value_N[:first].mean())
    positive = bool(known.value_N[:first].min() >= 0) and added > 0
    logs = Series(known.name, known.time_N, np.log(np.maximum(known.value_N, 0.0) + added)) if positive else known
    out_VTH = np.empty((len(variants), rows, horizon))
    for h in range(horizon):
        for source, ratios in ((known, False), (logs, True)):
            table = columns(source, h)
            for since in dict.fromkeys(_since(v, table) for v in variants if v.ratios == ratios):
                own = [k for k, v in enumerate(variants) if v.ratios == ratios and _since(v, table) == since]
                out_VTH[own, :, h] = _roll_one(table, source.value_N, first, h, since, [variants[k] for k in own])
    if positive:
        logged = [k for k, v in enumerate(variants) if v.ratios]
        # A ratio of ratios may explode: nothing is forecast above the largest value so far.
        most_T = np.maximum.accumulate(logs.value_N)[first - 1 : first - 1 + rows]
        out_VTH[logged] = np.exp(np.minimum(out_VTH[logged], most_T[:, None])) - added
    return out_VTH


def _chosen(variant: Variant, table: Columns) -> BoolArray:
    return np.array([group in variant.groups or group == "level" for group in table.group_F])


def _since(variant: Variant, table: Columns) -> int:
    """From where on all columns of a variant mean what they are named for."""
    return int(table.since_F[_chosen(variant, table)].max())


def _roll_one(
    table: Columns, value_N: FloatArray, first: int, ahead: int, since: int, variants: Sequence[Variant]
) -> FloatArray:
    """Forecasts for one step ahead. Row o of the inputs is the moment at which o + 1 values are known."""
    rows = len(value_N) - first + 1
    F = table.input_OF.shape[1]
    chosen = [_chosen(variant, table) for variant in variants]
    products_FF, products_F = np.zeros((F, F)), np.zeros(F)
    out_VT = np.empty((len(variants), rows))
    used = since
    for begin in range(0, rows, REFIT):
        known = first + begin
        # The moment with k values known has its target at number k + ahead; it must be among the known ones.
        end = max(known - ahead - 1, used)
        new_OF = table.input_OF[used:end]
        change_O = value_N[used + 1 + ahead : end + 1 + ahead] - value_N[used:end]
        products_FF += new_OF.T @ new_OF
        products_F += new_OF.T @ change_O
        used = end
        now = slice(known - 1, min(known - 1 + REFIT, len(value_N)))
        last_T = value_N[now]
        for v, (variant, own_F) in enumerate(zip(variants, chosen, strict=True)):
            change_T = np.zeros(len(last_T))
            if used - since >= FEWEST:
                change_T = table.input_OF[now][:, own_F] @ _solve(products_FF, products_F, own_F, variant.ridge)
            out_VT[v, begin : begin + REFIT] = last_T + change_T
    return out_VT


def _solve(products_FF: FloatArray, products_F: FloatArray, own_F: BoolArray, ridge: float) -> FloatArray:
    """Coefficients; each is held back in proportion to the size of its column, so units do not matter."""
    matrix_FF = products_FF[np.ix_(own_F, own_F)].copy()
    size_F = matrix_FF.diagonal().copy()
    count = size_F[-1]  # the level, the last column, is one at every moment
    held_F = ridge * size_F / count
    held_F[-1] = 0.0
    matrix_FF[np.diag_indices_from(matrix_FF)] += held_F + 1e-9 * (size_F + size_F.max())
    return np.linalg.solve(matrix_FF, products_F[own_F]).astype(np.float64)
