"""Measures of ranking, on cases worked out by hand."""

import math

import numpy as np
import pytest

from tunesmith.costmodel.evaluation import calibration, pairwise_accuracy, quality, scores


def array(*values: float) -> np.ndarray:
    return np.array(values)


def test_pairs_in_order() -> None:
    measured = array(1, 2, 3, 4)
    assert pairwise_accuracy(array(10, 20, 30, 40), measured) == 1.0
    assert pairwise_accuracy(array(4, 3, 2, 1), measured) == 0.0
    assert pairwise_accuracy(array(1, 3, 2, 4), measured) == pytest.approx(5 / 6)


def test_pairs_that_are_equal() -> None:
    assert pairwise_accuracy(array(7, 7), array(1, 2)) == 0.5, "nothing predicted"
    assert pairwise_accuracy(array(1, 2, 3), array(5, 5, 6)) == 1.0, "the first two are equal"
    assert math.isnan(pairwise_accuracy(array(1, 2), array(3, 3)))
    assert math.isnan(pairwise_accuracy(array(1), array(3)))


def test_quality_of_the_first() -> None:
    measured = array(4, 2, 1, 8)
    predicted = array(1, 2, 3, 4)
    assert quality(predicted, measured, 1) == 0.25
    assert quality(predicted, measured, 2) == 0.5
    assert quality(predicted, measured, 3) == 1.0
    assert quality(predicted, measured, 99) == 1.0


def test_quality_is_not_lucky_with_ties() -> None:
    assert quality(array(1, 1, 1), array(1, 2, 4), 1) == 0.25


def test_calibration_is_in_factors() -> None:
    off = calibration(array(2, 2, 2), array(1, 1, 1))
    assert off.bias == pytest.approx(2) and off.error == pytest.approx(2)
    both_ways = calibration(array(2, 1, 0.5), array(1, 1, 1))
    assert both_ways.bias == pytest.approx(1) and both_ways.error == pytest.approx(2)


def test_tasks_count_the_same_whatever_their_size() -> None:
    right = (array(1, 2, 3, 4), array(1, 2, 3, 4))
    wrong = (array(2, 1), array(1, 2))
    found = scores([right, wrong])
    assert (found.tasks, found.candidates) == (2, 6)
    assert found.pairwise == 0.5
    assert found.top1 == pytest.approx(0.75)
    assert found.top5 == 1.0


def test_tasks_without_a_pair_do_not_count_for_pairs() -> None:
    assert scores([(array(1, 2), array(1, 2)), (array(1), array(1))]).pairwise == 1.0
