"""Is the answer right: compare a kernel's output with what is expected."""

import math

import numpy as np

from tunesmith.measure.reference import Expected

__all__ = ["compare"]


def compare(name: str, got: np.ndarray, expected: Expected) -> tuple[float, str]:
    """Largest deviation relative to the scale, and what is wrong: the empty text when nothing is.

    NaN and infinities must be where they are expected, infinities with their sign.
    """
    with np.errstate(all="ignore"):
        deviation = np.subtract(got, expected.values)
        worst = float(max(deviation.max(), -deviation.min()))
        if math.isfinite(worst) and worst <= expected.tolerance * expected.scale:
            return worst / expected.scale, ""
        return _inspect(name, got, expected, np.abs(deviation))


def _inspect(name: str, got: np.ndarray, expected: Expected, deviation: np.ndarray) -> tuple[float, str]:
    want, allowed = expected.values, expected.tolerance * expected.scale
    close = np.isfinite(got) & np.isfinite(want) & (deviation <= allowed)
    right = close | (got == want) | (np.isnan(got) & np.isnan(want))
    finite = np.isfinite(deviation)
    error = float(deviation.max(initial=0.0, where=finite)) / expected.scale
    if right.all():
        return error, ""
    wrong = int(right.size - np.count_nonzero(right))
    place = np.unravel_index(int(np.argmin(right)), right.shape)
    index = ", ".join(str(int(i)) for i in place)
    found = f"{got[place]:.9g}{_poison_note(got[place])}"
    return error, (
        f"{name}[{index}] is {found}, expected {want[place]:.9g} within {allowed:.3g}; "
        f"{wrong} of {right.size} values are wrong"
    )


def _poison_note(value: np.generic) -> str:
    return " (never written)" if set(value.tobytes()) == {0xFF} else ""
