"""The state of the path view: JSON and back, cell and back, and no code from a cell."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widgets.state import PathState, cell_of, state_from, state_of_cell
from workbench.errors import SettingError

texts = st.text(max_size=12)
numbers = st.floats(allow_nan=False, allow_infinity=False)
states = st.builds(
    PathState,
    model=texts,
    world=texts,
    start=texts,
    end=texts,
    via=texts,
    regime=st.sampled_from(["mep", "transport", "principal", "static"]),
    sigma=st.none() | numbers,
    nodes=st.integers(3, 201),
    steps=st.integers(2, 2000),
    gamma=numbers,
    temperature=numbers,
    seed=st.integers(0, 2**31),
    device=texts,
    compare=st.booleans(),
    dtype=texts,
)


@given(states)
def test_a_state_survives_its_cell(state):
    assert state_of_cell(cell_of(state)) == state


@given(states)
def test_a_state_survives_json(state):
    assert state_from(json.loads(json.dumps(state.as_dict()))) == state


def test_a_cell_may_have_comments_and_leave_things_out():
    state = state_of_cell('world: str = "ring"  # a world\nnodes = 41\n')
    assert state == PathState(world="ring", nodes=41)


@pytest.mark.parametrize(
    "cell",
    [
        "nodes = __import__('os').getpid()",
        "import os",
        "nodes: int = 3 +",
        "nodes.real = 3",
        "print(1)",
        "x, y = 1, 2",
    ],
)
def test_a_cell_with_code_is_refused_and_never_run(cell):
    with pytest.raises(SettingError, match="no parameters cell"):
        state_of_cell(cell)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"nodez": 3}, "unknown parameter 'nodez'"),
        ({"nodes": "33"}, "nodes = '33'"),
        ({"nodes": True}, "nodes = True"),
        ({"nodes": 3.5}, "nodes = 3.5"),
        ({"temperature": None}, "temperature = None"),
        ({"regime": None}, "regime = None"),
        ({"gamma": float("nan")}, "gamma=nan; expected a finite number"),
        ({"sigma": float("inf")}, "sigma=inf; expected a finite number"),
        ({"gamma": 10**400}, "gamma=1000"),
        ({"nodes": 10**6000}, "nodes=a number of thousands of digits"),
    ],
)
def test_a_wrong_value_is_one_sentence(values, sentence):
    with pytest.raises(SettingError, match=sentence):
        state_from(values)


def test_whole_numbers_become_floats_where_floats_are_meant():
    state = state_from({"gamma": 7, "sigma": 1})
    assert isinstance(state.gamma, float)
    assert isinstance(state.sigma, float)


def test_via_points_are_listed():
    assert PathState(via="0,1; 2,3 ;").vias == ("0,1", "2,3")


def test_the_cell_is_the_notebooks_own():
    """Names and kinds of the state are those of the parameters cell of 10_paths, in its order."""
    cells = json.loads((Path(__file__).parents[2] / "notebooks" / "10_paths.ipynb").read_text())["cells"]
    cell = next("".join(c["source"]) for c in cells if "parameters" in c["metadata"].get("tags", []))
    lines = [line.split("#")[0].split("=")[0].strip() for line in cell.splitlines() if ":" in line]
    assert [line.split(" = ")[0] for line in cell_of(PathState()).splitlines()] == lines
    assert state_of_cell(cell).model == "fashion"
