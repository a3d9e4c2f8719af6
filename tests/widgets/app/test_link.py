"""The address holds the state, and nothing in an address can do harm."""

import json
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("panel")

from widgets.app.host import Host
from widgets.app.link import LONGEST, differences, read_query, write_query
from widgets.app.offer import LARGEST, Offer, bearable
from widgets.app.tabs import FisherTab
from widgets.app.turns import Turns
from widgets.state import PathState, state_from
from widgets.theme import LIGHT
from workbench.errors import SettingError

TABS = ("paths", "fisher")


def test_a_state_survives_the_address():
    state = PathState(world="v_mixture", start="-3,0.5", nodes=41, sigma=0.25)
    query = write_query("fisher", "dark", {"paths": differences(state), "fisher": {}})
    tab, theme, states = read_query(parse_qs(query), TABS)
    assert (tab, theme) == ("fisher", "dark")
    assert state_from(states["paths"]) == state
    assert states["fisher"] == {}


def test_only_what_differs_is_written():
    assert differences(PathState()) == {}
    assert differences(PathState(nodes=9)) == {"nodes": 9}


def test_a_state_that_is_too_long_is_not_kept():
    query = write_query("paths", "light", {"paths": {"start": "1," * LONGEST}})
    assert "paths=" not in query.replace("tab=paths", "")


@given(
    st.dictionaries(st.sampled_from(["tab", "theme", *TABS]), st.lists(st.binary(max_size=40), max_size=2))
)
def test_any_query_gives_a_tab_a_theme_and_plain_values(arguments):
    tab, theme, states = read_query(arguments, TABS)
    assert tab in TABS
    assert theme in ("light", "dark")
    assert all(isinstance(values, dict) for values in states.values())


@pytest.mark.parametrize("text", ['{"a": [1]}', '{"a": {}}', "[1]", "1", "{", "[" * 900, "NaN"])
def test_what_is_no_object_of_plain_values_is_left_out(text):
    assert read_query({"paths": [text.encode()]}, TABS)[2] == {}


@pytest.mark.parametrize("name", sorted(LARGEST))
def test_sizes_are_limited(name):
    assert bearable({name: LARGEST[name]}) == {name: LARGEST[name]}
    with pytest.raises(SettingError, match="at most on this page"):
        bearable({name: LARGEST[name] * 2 + 1})
    for value in (json.loads("NaN"), -(10**400)):
        with pytest.raises(SettingError, match="at most on this page"):
            bearable({name: value})


def test_device_and_dtype_are_the_servers():
    assert bearable({"device": "cuda:0", "dtype": "float16", "nodes": 9}) == {"nodes": 9}


@pytest.mark.parametrize(
    "text", ["/etc/hostname", "~/secret.png", "picture.png", "..", "start; /etc/hostname"]
)
@pytest.mark.parametrize("entry", ["start", "end", "via"])
def test_no_text_of_a_visitor_opens_a_file_of_the_server(entry, text):
    state = PathState(model="digits").but(**{entry: text})
    with pytest.raises(SettingError, match="the number of a real sample"):
        Offer().stage(state)


@pytest.mark.parametrize(
    "values",
    [
        {"model": "/etc/passwd"},
        {"model": "../weights"},
        {"corners": "/etc/hostname;1;2"},
        {"corners": "0;1;~"},
    ],
)
def test_no_slice_opens_a_file_of_the_server(values, monkeypatch):
    def opened(*arguments, **settings):
        raise AssertionError(arguments)

    monkeypatch.setattr("widgets.sessions.fisher_state.open_slice", opened)
    host = Host(LIGHT, Offer(), Turns(1))
    with pytest.raises(SettingError, match=r"got the (model|corner)"):
        FisherTab(host, {"space": "slice", **values})


def test_a_slice_of_ones_own_model_is_opened_where_it_lies(monkeypatch):
    seen = []

    def opened(model, **settings):
        seen.append(model)
        raise SettingError("a stop", "no more")

    monkeypatch.setattr("widgets.sessions.fisher_state.open_slice", opened)
    host = Host(LIGHT, Offer("/models/own.pt"), Turns(1))
    with pytest.raises(SettingError, match="a stop"):
        FisherTab(host, {"space": "slice", "model": "own"})
    assert seen == ["/models/own.pt"]


def test_a_model_is_one_that_is_offered(tmp_path):
    with pytest.raises(SettingError, match="the subject"):
        Offer().stage(PathState(model=str(tmp_path)))
    offer = Offer(str(tmp_path / "own"))
    assert offer.models[0] == "own"
    assert offer.path_of("own") == str(tmp_path / "own")
    assert offer.subjects[0] == "own"


def test_via_points_are_limited():
    state = PathState(world="v_mixture", via="0,1;" * 32)
    Offer().stage(state)
    with pytest.raises(SettingError, match="33 via points"):
        Offer().stage(state.but(via=state.via + "0,1"))


def test_a_forgotten_picture_is_one_sentence():
    with pytest.raises(SettingError, match="does not know any more"):
        Offer().stage(PathState(model="digits", start="picture-0123"))
