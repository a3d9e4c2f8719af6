"""The bench itself: order, two speeds, cancelling, gestures, files, gates and errors; no front end."""

import threading
import time
from contextlib import contextmanager

import pytest
import torch

from workbench.bench import Bench, BenchState, ContentCache, load_view
from workbench.errors import DataError, SettingError

FAST = {
    "world": "two_wells",
    "regimes": "static",
    "lenses": "paths,anisotropy",
    "background": "none",
    "nodes": 9,
}


@pytest.fixture
def bench():
    made = Bench(**FAST)
    yield made
    made.close()


def hear(bench):
    events = []
    bench.subscribe(lambda event: events.append(event) if event.what != "progress" else None)
    return events


def words(events):
    return [(e.what, e.speed, e.answer.lens if e.answer else "") for e in events]


def test_a_change_brings_coarse_answers_first_then_the_full_ones_in_order(bench):
    events = hear(bench)
    bench.change(start="-1.9,0.1")
    assert bench.wait()
    assert words(events) == [
        ("state", "full", ""),
        ("background", "coarse", ""),
        ("answer", "coarse", "paths"),
        ("answer", "coarse", "anisotropy"),
        ("table", "coarse", ""),
        ("background", "full", ""),
        ("answer", "full", "paths"),
        ("answer", "full", "anisotropy"),
        ("table", "full", ""),
        ("done", "full", ""),
        ("idle", "full", ""),
    ]
    assert bench.table.row("path, static").converged
    assert set(bench.answers) == {"paths", "anisotropy"}


def test_a_coarse_answer_tells_of_no_progress(bench):
    events = []
    bench.subscribe(lambda event: events.append(event.what))
    bench.change(start="-1.9,0.1", speed="coarse")
    assert bench.wait()
    assert "table" in events
    assert "progress" not in events
    bench.change(start="-1.8,0.1")
    assert bench.wait()
    assert "progress" in events


def test_a_gesture_stays_coarse_until_its_end(bench):
    events = hear(bench)
    bench.change(speed="coarse", start="-1.9,0.2")
    assert bench.wait()
    assert {e.speed for e in events if e.what == "answer"} == {"coarse"}


def test_answers_belong_to_the_newest_state_at_the_end(bench):
    events = hear(bench)
    for k in range(12):
        bench.change(speed="coarse", start=f"-1.9,{0.05 * k:.2f}")
        time.sleep(0.002)
    last = bench.change(start="-1.7,0.3")
    assert bench.wait()
    tables = [e.state for e in events if e.what == "table"]
    assert tables[-1] == last == bench.state
    order = [e.state for e in events if e.what == "state"]
    places = [order.index(state) for state in tables]
    assert places == sorted(places)  # never an old answer after a new one


def test_a_newer_change_cancels_a_full_computation():
    entered, cancelled = threading.Event(), []

    @contextmanager
    def gate(cancel):
        entered.set()
        if not cancelled:
            cancelled.append(cancel.wait(60))
        yield

    bench = Bench(**FAST, gate=gate)
    bench.change(start="-1.5,0")
    assert entered.wait(60)
    bench.change(start="-1.6,0")
    assert bench.wait()
    assert cancelled == [True]
    assert bench.table.rows
    bench.close()


def test_the_caller_is_not_kept_waiting():
    hold, held = threading.Event(), []

    @contextmanager
    def gate(cancel):
        held.append(hold.wait(60))
        yield

    bench = Bench(**FAST, gate=gate)
    bench.change(start="-1.5,0")
    assert bench.busy
    hold.set()
    assert bench.wait()
    assert held == [True]  # it was let go by what came after the change
    bench.close()


def test_asking_at_once_equals_what_the_worker_delivers(bench):
    bench.change(start="-1.8,0.1")
    assert bench.wait()
    fresh = Bench(bench.state).ask()
    own = {row.line: row for row in bench.table.rows}
    assert fresh.table.rows
    for row in fresh.table.rows:
        assert own[row.line] == row  # number for number


def test_a_saved_view_gives_the_same_numbers_exactly(bench, tmp_path):
    bench.change(start="-1.8,0.1", sigma=0.3)
    assert bench.wait()
    path = bench.save(tmp_path / "view.yaml")
    again = Bench.load(path)
    assert again.state == bench.state == load_view(path)
    one, other = bench.ask().numbers(), again.ask().numbers()
    assert {name: number.value for name, number in one.items()} == {n: e.value for n, e in other.items()}


def test_a_parameters_cell_is_looked_at(bench):
    cell = bench.to_parameters().replace("nodes: int = 9", "nodes: int = 7")
    bench.from_parameters(cell)
    assert bench.wait()
    assert bench.state.nodes == 7
    assert bench.answers["paths"].lines[0].points.shape[0] == 7


def test_benches_of_one_cache_share_what_was_computed():
    cache = ContentCache()
    one = Bench(**FAST, cache=cache)
    one.ask()
    before = cache.use
    Bench(**FAST, cache=cache).ask()
    assert cache.use.misses == before.misses
    assert cache.use.hits > before.hits


def test_moving_points_by_their_place_on_the_plane(bench):
    assert bench.moved("start", -1.5, 0.25).start == "-1.5,0.25"
    bench.change(via="0,0.5")
    assert bench.moved("via 0", 0.1, 0.2).via == "0.1,0.2"
    assert bench.with_via(-1.0, 0.0).vias == ("-1,0", "0,0.5")  # sorted along the line
    assert bench.without_via("via 0").via == ""
    with pytest.raises(SettingError, match="via 7"):
        bench.moved("via 7", 0.0, 0.0)


def test_a_point_of_a_picture_model_is_the_nearest_sample():
    bench = Bench(model="digits", lenses="paths", background="none")
    place = bench.place
    x, y = place.coords("7")
    assert torch.allclose(
        place.cloud[int(place.text_at(x, y))], torch.tensor([x, y], dtype=place.cloud.dtype)
    )
    assert place.section.name.startswith("PCA")


def test_what_cannot_be_used_leaves_the_state_as_it_was(bench):
    bench.ask(resolution="coarse")
    before = bench.state
    for changes in ({"metric": "taxi"}, {"start": "no point"}, {"nodes": 2}, {"projection": "pca"}):
        with pytest.raises(SettingError):
            bench.change(**changes)
    assert bench.state == before


def test_errors_of_the_worker_come_as_one_sentence(bench):
    events = hear(bench)
    bench.change(world="atlantis")
    assert bench.wait()
    said = [e.words for e in events if e.what == "error"]
    assert len(said) == 1
    assert "atlantis" in said[0]
    bench.change(world="two_wells")
    assert bench.wait()
    assert bench.table.rows


def test_one_lens_that_cannot_answer_does_not_silence_the_others():
    result = Bench(**{**FAST, "lenses": "fisher,paths"}, start="-3,0", end="-3,0.0000001").ask(
        resolution="coarse"
    )
    assert [said.lens for said in result.answers] == ["fisher", "paths"]


def test_a_background_that_is_not_there_is_a_note():
    result = Bench(**{**FAST, "world": "muller_brown", "metric": "euclidean", "background": "phase"}).ask(
        resolution="coarse"
    )
    assert result.background is None
    assert "without a density" in result.notes[0]
    with pytest.raises(SettingError, match="one of paths"):
        result.answer("conda")


def test_leaving_and_closing_silence_a_bench(bench):
    events = []
    leave = bench.subscribe(events.append)
    leave()
    leave()
    bench.change(start="-1.2,0")
    assert bench.wait()
    assert events == []
    bench.close()
    bench.change(start="-1.3,0")
    assert bench.wait()


def test_stopping_by_hand_is_said(bench):
    events = hear(bench)
    bench.change(start="-1.1,0")
    bench.cancel()
    assert bench.wait()
    assert all(e.what != "error" for e in events)


def test_loading_what_is_no_view_is_refused(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("a: 1")
    with pytest.raises(DataError, match="view, notebook and parameters"):
        Bench.load(path)


def test_a_bench_needs_no_front_end():
    import subprocess
    import sys

    script = """
import sys
import workbench.bench.bench, workbench.bench.scrub, workbench.bench.export
bad = {m.split('.')[0] for m in sys.modules} & {'plotly', 'ipywidgets', 'IPython', 'panel', 'bokeh'}
sys.exit(str(bad) if bad else 0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_state_of_a_bench_can_be_given_in_three_ways():
    state = BenchState(**FAST)
    assert Bench(state).state == Bench(state.as_dict()).state == Bench(**FAST).state
    with pytest.raises(SettingError, match="colour"):
        Bench(colour="red")


def test_answers_about_another_subject_are_forgotten_at_once(bench):
    """Or a picture of the new subject would be drawn with curves of the old one."""
    bench.refresh()
    assert bench.wait()
    seen = []
    bench.subscribe(
        lambda event: seen.append((event.what, {said.lines[0].points.shape[-1] for said in told(bench)}))
    )
    bench.change(world="g3", start="", end="", regimes="mep")
    assert seen[0] == ("state", set())
    assert bench.wait()
    assert all(len(dims) <= 1 for _, dims in seen)


def told(bench):
    return [said for said in bench.answers.values() if said.lines]
