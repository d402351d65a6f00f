# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from math import inf, log

import pytest

from sojourn.scoring.reference import published


def test_a_cell_agrees_within_its_tolerance() -> None:
    ours = {"a": {"x": [9.0, 11.0]}, "b": {"x": [20.0]}, "c": {"x": [33.0]}, "d": {"y": [1.0]}}
    theirs = {"a": {"x": 10.0}, "b": {"x": 30.0}, "c": {"x": 32.0}, "d": {"x": 1.0}, "e": {"x": 1.0}}
    (found,) = published.compare(ours, theirs, {"x": published.Tolerance(0.05)})
    assert [(p.cell, p.ours, p.low, p.high, p.agrees) for p in found.pairs] == [
        ("a", 10, 9, 11, True),
        ("b", 20, 20, 20, False),
        ("c", 33, 33, 33, True),
    ]
    assert found.agreeing == 2
    assert [p.cell for p in found.disagreeing] == ["b"]
    assert found.pairs[1].ratio == pytest.approx(2 / 3)
    # By hand: deviations (-11, -1, 12) and (-14, 6, 8).
    assert found.pearson == pytest.approx((154 - 6 + 96) / ((121 + 1 + 144) * (196 + 36 + 64)) ** 0.5)
    assert found.spearman == pytest.approx(1)


def test_ranks_are_taken_at_the_digits_that_are_published() -> None:
    theirs = {"a": 1.0, "b": 1.0, "c": 0.98, "d": 0.5}
    ours = {"a": 0.9988, "b": 0.9953, "c": 0.97, "d": 0.6}
    (found,) = published.compare({k: {"x": [v]} for k, v in ours.items()}, {k: {"x": v} for k, v in theirs.items()}, {})
    assert found.spearman == pytest.approx(1), "0.9988 and 0.9953 are both 1.00"
    (distinct_names,) = published.compare(
        {k: {"x": [v]} for k, v in ours.items()}, {k: {"x": v} for k, v in (theirs | {"d": 0.501}).items()}, {}
    )
    # By hand: ranks 4, 3, 2, 1 beside 3.5, 3.5, 2, 1; at three digits ours differ.
    assert distinct_names.spearman == pytest.approx(4.5 / (5 * 4.5) ** 0.5)


def test_log_ratios_tell_bias_and_size_apart() -> None:
    ours = {"a": {"x": [2.0]}, "b": {"x": [0.5]}, "c": {"x": [1.1]}, "d": {"x": [-1.0]}, "e": {"x": [4.0]}}
    theirs = {cell: {"x": 1.0} for cell in "abc"} | {"d": {"x": 1.0}, "e": {"x": 0.0}}
    (found,) = published.compare(ours, theirs, {})
    assert found.median_log_ratio == pytest.approx(log(1.1))
    assert found.median_abs_log_ratio == pytest.approx(log(2))
    assert [pair.cell for pair in found.furthest(2)] == ["a", "b"], "no ratio, no place"
    assert found.near_share == 1 / 5 and found.p90_abs_log_ratio == inf, "no ratio is the furthest"
    (none,) = published.compare({}, theirs, {})
    assert (none.median_log_ratio, none.median_abs_log_ratio, none.furthest(3)) == (None, None, [])
    assert (none.near_share, none.p90_abs_log_ratio) == (None, None)


def test_a_zero_is_near_a_published_zero_alone() -> None:
    theirs = {cell: {"x": 0.0} for cell in "abc"} | {"d": {"x": 1.5}}
    ours = {"a": {"x": [0.0]}, "b": {"x": [0.04]}, "c": {"x": [0.3]}, "d": {"x": [1.5]}}
    (found,) = published.compare(ours, theirs, {})
    assert found.near_share == 3 / 4, "0.04 is 0.0 to the published digits"
    assert (found.similar, found.p90_abs_log_ratio) == (True, inf)


def test_differences_have_an_order_and_no_sizes() -> None:
    theirs = {cell: {"x": value} for cell, value in zip("abc", (-2.0, 0.5, 4.0), strict=True)}
    (found,) = published.compare({cell: {"x": [2 * it["x"]]} for cell, it in theirs.items()}, theirs, {})
    assert found.ordered and found.similar is None and found.furthest(3) == []
    sizes = found.near_share, found.p90_abs_log_ratio, found.median_log_ratio, found.median_abs_log_ratio
    assert sizes == (None, None, None, None)


def test_what_is_infinite_is_left_out_of_the_agreement_and_counted() -> None:
    theirs = {cell: {"x": value} for cell, value in {"a": 1.0, "b": 2.0, "lost": 3.0, "c": 4.0}.items()}
    ours = {cell: {"x": [2 * theirs[cell]["x"]]} for cell in "abc"} | {"lost": {"x": [1.0, inf]}}
    (found,) = published.compare(ours, theirs, {"x": published.Tolerance(1.5)})
    assert (found.infinite, len(found.pairs), found.agreeing) == (1, 4, 3)
    assert (found.pearson, found.spearman) == (pytest.approx(1), pytest.approx(1))
    assert found.median_log_ratio == found.median_abs_log_ratio == pytest.approx(log(2))
    assert [pair.cell for pair in found.disagreeing] == ["lost"]
    assert "lost" not in [pair.cell for pair in found.furthest(4)]
    assert (found.near_share, found.p90_abs_log_ratio) == (0, inf), "it is the furthest"


def test_what_is_infinite_there_agrees_with_the_same_here_alone() -> None:
    theirs = {cell: {"x": inf} for cell in "ab"} | {cell: {"x": 1.0} for cell in "cd"}
    ours = {"a": {"x": [inf]}, "b": {"x": [5.0]}, "c": {"x": [1.0]}, "d": {"x": [2.0]}}
    (found,) = published.compare(ours, theirs, {"x": published.Tolerance(0.1)})
    assert [pair.agrees for pair in found.pairs] == [True, False, True, False]
    assert [pair.cell for pair in found.disagreeing] == ["b", "d"], "further than any share"
    assert [pair.ratio for pair in found.pairs] == [None, None, 1, 2]
    assert (found.infinite, [pair.cell for pair in found.furthest(4)]) == (2, ["d", "c"])


def test_a_tolerance_is_a_share_or_in_the_figures_unit() -> None:
    share, unit = published.Tolerance(0.1), published.Tolerance(0.1, absolute=True)
    assert share.holds(11, 10) and not share.holds(0.6, 0.5) and str(share) == "10%"
    assert unit.holds(0.6, 0.5) and not unit.holds(10.2, 10) and str(unit) == "0.1"


def test_no_tolerance_is_no_verdict() -> None:
    (found,) = published.compare({"a": {"x": [1.0]}}, {"a": {"x": 100.0}}, {})
    assert found.pairs[0].agrees is None
    assert found.disagreeing == [] and found.agreeing == 0


def test_ties_share_their_rank_and_little_has_no_correlation() -> None:
    assert published.ranks([3, 1, 3, 2]) == [3.5, 1, 3.5, 2]
    assert published.correlation([1, 2], [1, 2]) is None
    assert published.correlation([1, 1, 1], [1, 2, 3]) is None
    assert published.correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)


def test_a_published_zero_has_no_ratio() -> None:
    assert published.pair("a", [1.0], 0.0, published.Tolerance(0.1)).ratio is None
    assert published.pair("a", [1.0], 0.0, published.Tolerance(0.1)).agrees is False


def test_the_files_say_where_they_come_from_and_hold_their_rows() -> None:
    for path in published.FOLDER.glob("*.csv"):
        assert path.read_text().startswith("# "), path
        assert published.rows(path.name), path
    assert len(published.rows("fairness_rfc3168.csv")) == 24
    assert len(published.rows("fairness_rtt.csv")) == 192


def compared(factors: list[float], theirs: list[float]) -> published.PublishedComparison:
    ours = {f"c{n}": {"x": [factor * value]} for n, (factor, value) in enumerate(zip(factors, theirs, strict=True))}
    (found,) = published.compare(ours, {f"c{n}": {"x": value} for n, value in enumerate(theirs)}, {})
    return found


@pytest.mark.parametrize(
    ("factors", "theirs", "similar", "order_is_decisive"),
    [
        ([1.1, 0.9, 1.0], [1, 10, 100], True, True),
        ([1.5, 1.4, 1.0], [1, 10, 100], False, True),  # the middle one is 40 % more
        ([1.1, 1.0, 0.95], [100, 101, 102], True, False),  # another order, of what hardly differs
        ([1.0, 1.0, 1.0, 6.0, 0.1], [1, 2, 3, 4, 5], False, True),  # half are right, but the order is not
        ([inf, inf, 1.0], [1, 10, 100], False, True),
        ([inf], [1], False, False),
        ([], [], None, False),
    ],
)
def test_agreement_is_of_the_middle_cell_and_of_the_order_where_that_tells(
    factors: list[float], theirs: list[float], similar: bool | None, order_is_decisive: bool
) -> None:
    found = compared(factors, theirs) if theirs else published.PublishedComparison("x", None, ())
    assert (found.similar, found.order_is_decisive) == (similar, order_is_decisive)


def test_an_order_has_no_value_of_few_cells() -> None:
    assert compared([1.0, 3.0], [1, 2]).ordered is None
    assert compared([3.0, 3.0, 3.0], [1, 2, 3]).ordered and not compared([9.0, 3.0, 1.0], [1, 2, 3]).ordered
