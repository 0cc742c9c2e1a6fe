"""What is taken from scipy, which only synchronous jobs need: an extra brings it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pilotage.model.errors import InputError
from pilotage.model.workload import FloatArray


def spline(size_S: FloatArray, share_C: FloatArray, seconds_SC: FloatArray, **degrees: int) -> Any:
    """A spline through every cell, called with sizes and shares; `degrees` are kx and ky."""
    return _scipy("interpolate", "RectBivariateSpline")(size_S, share_C, seconds_SC, s=0, **degrees)


def isotonic(value_K: FloatArray, *, increasing: bool) -> FloatArray:
    """The nearest values that rise, or fall."""
    nearest_K: FloatArray = _scipy("optimize", "isotonic_regression")(value_K, increasing=increasing).x
    return nearest_K


def _scipy(module: str, name: str) -> Any:
    try:
        return getattr(import_module(f"scipy.{module}"), name)
    except ImportError as error:
        raise InputError("scipy is not installed", expected="pip install 'pilotage[gang]'") from error
