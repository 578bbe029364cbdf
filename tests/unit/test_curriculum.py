"""The group size grows when the model copes, and draws are the same after a restart."""

import pytest

from datamux.train.curriculum import Curriculum


def test_grows_when_accuracy_passes():
    c = Curriculum(capacity=10, start=2, threshold=0.8, window=3, elastic=0.0)
    for step in range(2):
        c.observe(step, 2, 0.9)
    assert c.size == 2, "not before the window is full"
    c.observe(2, 1, 0.9)
    assert c.size == 2, "other sizes do not count"
    c.observe(3, 2, 0.9)
    assert c.size == 3
    for step in range(4, 30):
        c.observe(step, c.size, 0.1)
    assert c.size == 3
    for step in range(30, 60):
        c.observe(step, c.size, 0.95)
    assert c.size == 10
    assert c.reached[3] == 4
    assert list(c.reached) == [2, 3, 4, 6, 9, 10]


def test_grows_when_loss_falls():
    c = Curriculum(capacity=3, start=1, threshold=0.5, grow_when="below", window=2)
    c.observe(0, 1, 0.4)
    c.observe(1, 1, 0.7)
    assert c.size == 1
    c.observe(2, 1, 0.2)
    assert c.size == 2


def test_deadline_brings_the_capacity_in_any_case():
    c = Curriculum(capacity=40, start=2, threshold=0.99, deadline=100)
    for step in range(101):
        c.observe(step, c.size, 0.0)
    assert c.size == 40


def test_draws_depend_on_seed_and_step_alone():
    a, b = Curriculum(capacity=8, start=8, elastic=0.5, seed=3), Curriculum(capacity=8, start=8, elastic=0.5, seed=3)
    drawn = [a.draw(step) for step in range(200)]
    assert drawn == [b.draw(step) for step in range(200)]
    assert set(drawn) == set(range(1, 9))
    assert 0.4 < sum(k == 8 for k in drawn) / 200 < 0.7
    assert drawn != [Curriculum(capacity=8, start=8, elastic=0.5, seed=4).draw(step) for step in range(200)]


def test_state_survives():
    a = Curriculum(capacity=10, start=2, window=3, threshold=0.8)
    for step in range(7):
        a.observe(step, a.size, 0.9)
    b = Curriculum(capacity=10, start=2, window=3, threshold=0.8)
    b.restore(a.state())
    assert (b.size, b.history, b.reached) == (a.size, a.history, a.reached)


@pytest.mark.parametrize("start", [0, 3])
def test_a_start_that_does_not_fit_is_an_error(start):
    with pytest.raises(ValueError, match=rf"start must be 1 to 2 \(the capacity\), got {start}"):
        Curriculum(capacity=2, start=start)
