"""A saved view as a preset: its parameters, and what is refused before anything runs."""

import pytest

from workbench.bench.state import BenchState, save_view
from workbench.errors import DataError, SettingError
from workbench.headless.run import plan_run


def test_a_saved_view_is_a_preset_with_every_parameter(tmp_path):
    state = BenchState(world="v_mixture", sigma=0.1 + 0.2, start="-2.5,0.3", metric="density", nodes=21)
    plan = plan_run("90_side_by_side", preset=str(save_view(state, tmp_path / "mine.yaml")))
    assert {name: plan.parameters[name] for name in state.as_dict()} == state.as_dict()
    assert plan.preset == "mine"


def test_an_argument_goes_before_the_view(tmp_path):
    path = save_view(BenchState(world="ring"), tmp_path / "mine.yaml")
    assert plan_run("90_side_by_side", preset=str(path), arguments={"nodes": "7"}).parameters["nodes"] == 7


def test_a_view_belongs_to_its_notebook(tmp_path):
    path = save_view(BenchState(), tmp_path / "mine.yaml")
    with pytest.raises(DataError, match="90_side_by_side"):
        plan_run("10_paths", preset=str(path))


def test_a_damaged_view_is_refused_before_a_kernel_starts(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(save_view(BenchState(), path).read_text().replace("nodes: 17", "nodes: many"))
    with pytest.raises(SettingError, match="nodes"):
        plan_run("90_side_by_side", preset=str(path))
    path.write_text("view: 99\nnotebook: 90_side_by_side\nparameters: {}\n")
    with pytest.raises(DataError, match="version 99"):
        plan_run("90_side_by_side", preset=str(path))
