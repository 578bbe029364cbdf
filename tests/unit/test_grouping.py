"""Flat rows <-> groups, for every number of rows and every size."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from datamux.grouping import Grouping, in_lone_groups

sizes = st.integers(1, 7).flatmap(lambda n: st.tuples(st.integers(1, n), st.just(n)))


@given(rows=st.integers(0, 40), size=sizes, filler=st.sampled_from(["nothing", "repeat"]))
def test_ungroup_undoes_group(rows, size, filler):
    k, n = size
    x = torch.arange(rows * 3, dtype=torch.float64).view(rows, 3)
    grouping = Grouping(rows, k, n, filler)
    grouped = grouping.group(x)
    assert grouped.shape == (grouping.groups, grouping.slots, 3)
    torch.testing.assert_close(grouping.ungroup(grouped), x)


@given(rows=st.integers(1, 40), size=sizes)
def test_every_row_has_one_slot_and_empty_slots_hold_zeros(rows, size):
    grouping = Grouping(rows, *size)
    grouped = grouping.group(torch.arange(1, rows + 1))
    occupied = grouping.occupied(grouped.device)
    assert sorted(grouped[occupied].tolist()) == list(range(1, rows + 1))
    assert (grouped[~occupied] == 0).all()
    assert grouping.full == bool(occupied.all())


@given(rows=st.integers(1, 40), size=sizes)
def test_repeats_stay_within_their_group(rows, size):
    k, n = size
    plain = Grouping(rows, k, n).group(torch.arange(1, rows + 1))
    repeated = Grouping(rows, k, n, "repeat").group(torch.arange(1, rows + 1))
    for members, slots in zip(plain, repeated, strict=True):
        assert set(slots.tolist()) == set(members.tolist()) - {0}


def test_consecutive_rows_share_a_group():
    assert Grouping(5, 2, 4).group(torch.arange(1, 6)).tolist() == [[1, 2], [3, 4], [5, 0]]
    assert Grouping(5, 2, 4, "repeat").group(torch.arange(1, 6)).tolist() == [[1, 2, 1, 2], [3, 4, 3, 4], [5] * 4]


def test_repeats_are_averaged():
    answers = torch.tensor([[[1.0], [10.0], [3.0], [30.0]], [[5.0], [6.0], [7.0], [10.0]]])
    assert Grouping(3, 2, 4, "repeat").ungroup(answers).tolist() == [[2.0], [20.0], [7.0]]


@pytest.mark.parametrize(("k", "message"), [(0, "at least 1"), (5, "4 slots"), (True, "whole number")])
def test_wrong_group_size(k, message):
    with pytest.raises(ValueError, match=message):
        Grouping(3, k, 4)


def test_wrong_filler():
    with pytest.raises(ValueError, match="allowed: nothing, repeat"):
        Grouping(3, 2, 4, "repeats")


def test_lone_groups():
    occupied = torch.tensor([True, False, False, True, True, False, False, False, False, True])
    assert in_lone_groups(occupied, 3).tolist() == [True] * 3 + [False] * 6 + [True]
    assert in_lone_groups(occupied, 1).tolist() == occupied.tolist()
    assert in_lone_groups(occupied[:0], 3).tolist() == []
