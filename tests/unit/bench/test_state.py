"""The state: what it accepts, its cell, its file, and back again."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from workbench.bench.state import (
    BenchState,
    load_view,
    read_view,
    save_view,
    state_of,
    state_of_cell,
    view_text,
)
from workbench.errors import DataError, SettingError

TEXT = st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=20)
STATES = st.builds(
    BenchState,
    world=st.sampled_from(["", "v_mixture"]),
    start=TEXT,
    via=TEXT,
    sigma=st.none() | st.floats(0.0, 1e3),
    nodes=st.integers(3, 500),
    steps=st.none() | st.integers(2, 2000),
    gamma=st.none() | st.floats(0.0, 1e6),
    weight=st.none() | st.floats(1e-300, 1e300),
    metric=st.sampled_from(["score", "density"]),
    seed=st.integers(0, 2**62),
)


@given(STATES)
def test_a_view_file_gives_back_the_state_bit_for_bit(state):
    assert read_view(view_text(state)) == state


@given(STATES)
def test_a_parameters_cell_gives_back_the_state(state):
    assert state_of_cell(state.as_cell()) == state


def test_saving_and_loading(tmp_path):
    state = BenchState(world="ring", sigma=0.1 + 0.2, start="1,2")
    path = save_view(state, tmp_path / "mine")
    assert path.name == "mine.yaml"
    assert load_view(path) == state


def test_a_state_is_plain_values_for_the_notebook():
    values = BenchState().as_dict()
    assert all(value is None or isinstance(value, (str, int, float)) for value in values.values())
    assert state_of(values) == BenchState()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"colour": "red"}, "colour"),
        ({"nodes": "many"}, "nodes"),
        ({"nodes": 1}, "nodes"),
        ({"sigma": -1.0}, "sigma"),
        ({"sigma": float("nan")}, "sigma"),
        ({"weight": 0.0}, "weight"),
        ({"metric": "taxi"}, "taxi"),
        ({"background": "sky"}, "sky"),
        ({"lenses": "paths,magic"}, "magic"),
        ({"regimes": "mep,mad"}, "mad"),
        ({"guidance": True}, "guidance"),
        ({"seed": 1.5}, "seed"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(changes, words):
    with pytest.raises(SettingError, match=words) as caught:
        state_of(changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[1, 2]",
        "view: 1",
        "view: 2\nnotebook: 90_side_by_side\nparameters: {}",
        "view: true\nnotebook: 90_side_by_side\nparameters: {}",
        "view: 1\nnotebook: 10_paths\nparameters: {}",
        "view: 1\nnotebook: 90_side_by_side\nparameters: [1]",
        "view: 1\nnotebook: 90_side_by_side\nparameters: {1: 2}",
        "view: 1\nnotebook: 90_side_by_side\nparameters: {}\nmore: 1",
        "{unclosed",
        "!!python/object/apply:os.system ['true']",
        "x" * 70000,
        b"\xff\xfe\x00",
        "[" * 5000,
    ],
)
def test_a_file_that_is_no_view_is_refused_in_one_sentence(content):
    with pytest.raises(DataError) as caught:
        read_view(content)
    assert "\n" not in str(caught.value)


def test_a_file_that_unfolds_is_refused_before_it_does():
    rows = [f"  - &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 5)]
    text = "\n".join(["view: 1", "notebook: 90_side_by_side", "parameters:", " start:", "  - &a0 [x]", *rows])
    with pytest.raises(DataError, match="a reference"):
        read_view(text)


def test_nothing_in_a_file_is_run(tmp_path):
    made = tmp_path / "made"
    with pytest.raises(DataError, match="not YAML"):
        read_view(f"!!python/object/apply:os.mkdir ['{made}']")
    assert not made.exists()


def test_a_view_with_an_unknown_parameter_is_refused():
    text = yaml.safe_dump({"view": 1, "notebook": "90_side_by_side", "parameters": {"speed": 3}})
    with pytest.raises(SettingError, match="speed"):
        read_view(text)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        load_view(tmp_path / "none.yaml")


def test_differences_name_what_two_states_do_not_share():
    one = BenchState(world="ring", sigma=1.0)
    assert one.differences(one.but(sigma=2.0)) == {"sigma": (1.0, 2.0)}
