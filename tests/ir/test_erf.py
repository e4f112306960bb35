import math

import numpy as np

from tunesmith.ir.erf import erf


def test_relative_error_is_at_most_1e_15() -> None:
    tiny = 10.0 ** np.linspace(-300, 0, 500)
    x = np.concatenate([np.linspace(-7, 7, 20_001), tiny, -tiny, [1.0, -1.0, 6.0, np.nextafter(1.0, 2)]])
    expected = np.array([math.erf(v) for v in x])
    np.testing.assert_allclose(erf(x), expected, rtol=1e-15, atol=0)


def test_specials() -> None:
    found = erf(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0]))
    np.testing.assert_array_equal(found, [np.nan, 1.0, -1.0, 0.0, -0.0])
    assert np.signbit(found[4])


def test_type_and_shape_are_kept() -> None:
    assert erf(np.zeros((2, 3), np.float32)).dtype == np.float32
    assert erf(np.array(0.5)).shape == ()
