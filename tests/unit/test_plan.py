"""Which rows share a pass, for any lengths and budget."""

from hypothesis import given
from hypothesis import strategies as st

from datamux.inference.plan import plan_passes


@given(st.lists(st.integers(1, 200), max_size=80), st.integers(1, 9), st.integers(1, 1000))
def test_every_row_once_in_whole_groups_within_the_budget(lengths, group_size, positions):
    passes = plan_passes(lengths, group_size, lambda tokens: positions // tokens)
    assert sorted(row for rows in passes for row in rows) == list(range(len(lengths)))
    for rows in passes[:-1]:
        assert len(rows) % group_size == 0, "only the very last group may be incomplete"
    for rows in passes:
        groups = -(-len(rows) // group_size)
        assert groups == 1 or groups * max(lengths[row] for row in rows) <= positions
    widths = [max(lengths[row] for row in rows) for rows in passes]
    assert widths == sorted(widths, reverse=True), "the longest first"


def test_similar_lengths_leave_little_padding():
    lengths = [1 + i % 50 for i in range(1000)]
    passes = plan_passes(lengths, 4, lambda tokens: 512 // tokens)
    run = sum(len(rows) * max(lengths[row] for row in rows) for rows in passes)
    assert sum(lengths) > 0.9 * run


def test_a_pass_ends_where_padding_would_cost_more_than_another_pass():
    few_long = [64] * 4 + [8] * 400
    assert [len(rows) for rows in plan_passes(few_long, 1, lambda tokens: 10_000)] == [4, 400]
    nearly_equal = [9] * 4 + [8] * 100
    assert [len(rows) for rows in plan_passes(nearly_equal, 1, lambda tokens: 10_000)] == [104]
