"""The cache: keys by content, counts, the budget, threads."""

import threading
import time
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from workbench.bench.cache import ContentCache, content_key, size_of
from workbench.errors import SettingError


@dataclass(frozen=True, slots=True)
class Pair:
    first: torch.Tensor
    second: str


def _closure(value):
    return lambda x: x + value


SAME = [
    (torch.arange(3.0), torch.arange(3.0)),
    ((1, "a", None), (1, "a", None)),
    (Pair(torch.ones(2), "x"), Pair(torch.ones(2), "x")),
    ({"a": 1, "b": 2.0}, {"b": 2.0, "a": 1}),
    (_closure(2.0), _closure(2.0)),
]
OTHER = [
    (torch.ones(3), torch.ones(3) + 1e-6),
    (torch.arange(3.0), torch.arange(3.0, dtype=torch.float64)),
    (torch.zeros(2, 3), torch.zeros(3, 2)),
    (torch.zeros(2, dtype=torch.int64), torch.zeros(2, dtype=torch.float64)),  # equal bytes
    (1, 1.0),
    (1, "1"),
    (("ab", "c"), ("a", "bc")),
    ((1, (2, 3)), ((1, 2), 3)),
    (0.1 + 0.2, 0.3),
    (Pair(torch.ones(2), "x"), Pair(torch.ones(2), "y")),
    (_closure(2.0), _closure(3.0)),
    (True, 1),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_equal_content_has_one_key(one, other):
    assert content_key(one) == content_key(other)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_other_content_has_another_key(one, other):
    assert content_key(one) != content_key(other)


def test_a_network_counts_by_its_weights():
    torch.manual_seed(1)
    one, twin = nn.Linear(3, 2), nn.Linear(3, 2)
    twin.load_state_dict(one.state_dict())
    before = content_key(one)
    assert before == content_key(twin)
    with torch.no_grad():
        one.weight[0, 0] += 1e-6
    assert content_key(one) != before


def test_what_has_no_content_is_refused():
    with pytest.raises(SettingError, match="generator"):
        content_key(x for x in "ab")


def test_an_answer_is_computed_once_and_counted():
    cache, calls = ContentCache(), []
    for _ in range(3):
        assert cache.get("k", lambda: calls.append(1) or torch.ones(4)).sum() == 4
    assert len(calls) == 1
    assert (cache.use.hits, cache.use.misses, cache.use.entries) == (2, 1, 1)


def test_the_least_recently_used_goes_first():
    size = size_of(torch.zeros(1000))
    cache = ContentCache(budget=int(2.5 * size))
    for key in ("a", "b"):
        cache.get(key, lambda: torch.zeros(1000))
    cache.get("a", lambda: None)
    cache.get("c", lambda: torch.zeros(1000))
    assert cache.peek("b") is None
    assert cache.peek("a") is not None
    assert cache.use.evictions == 1
    assert cache.use.bytes <= cache.budget


def test_memory_is_counted_by_storage():
    base = torch.zeros(100_000)
    assert size_of((base, base, base[:10])) < 1.1 * base.untyped_storage().nbytes()
    assert size_of(base[:10]) >= base.untyped_storage().nbytes()  # a view keeps the whole of it


def test_an_answer_above_the_budget_is_handed_out_and_not_kept():
    cache = ContentCache(budget=100)
    assert cache.get("k", lambda: torch.zeros(1000)).numel() == 1000
    assert cache.use.entries == 0


def test_an_answer_that_may_not_be_kept_is_not():
    cache = ContentCache()
    cache.get("k", lambda: "half", keep=lambda value: value != "half")
    assert cache.get("k", lambda: "whole") == "whole"


def test_an_error_is_raised_and_nothing_is_kept():
    cache = ContentCache()

    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cache.get("k", fail)
    assert cache.get("k", lambda: 1) == 1


def test_threads_that_ask_together_compute_once():
    cache, calls, barrier = ContentCache(), [], threading.Barrier(6)
    found = []

    def slow():
        calls.append(1)
        time.sleep(0.05)
        return 7

    def ask():
        barrier.wait()
        found.append(cache.get("k", slow))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [7] * 6
    assert len(calls) == 1
