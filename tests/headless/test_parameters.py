"""Parameters: declared in the cell, checked before anything runs, never evaluated."""

import ast

import nbformat
import pytest
from papermill.translators import PythonTranslator

from workbench.errors import DataError, SettingError
from workbench.headless.catalog import open_notebook
from workbench.headless.parameters import (
    declared,
    gather,
    parameters_cell,
    parse_declaration,
    split_assignment,
)

from .making import write_notebook

CELL = """\
nodes: int = 33                 # 3..201, images on the string
regime: str = "mep"             # mep|transport|principal|static, which string to find
model: str = "fashion"          # fashion|digits|..., a shipped model or a folder
world: str = ""                 # |ring|muller_brown, overrides the model
sigma: float | None = None      # 0.., noise level; None lets the method choose
tol: float = 1e-6
gamma: float = 7
seeds: list[int] = [1, 2]       # 0..
end: int | str = 0              # an index or a file
flag: bool = False
"""


@pytest.fixture
def declaration():
    return parse_declaration(CELL, "paths")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nodes=5", 5),
        ("tol=1e-3", 0.001),
        ("gamma=8", 8.0),
        ("sigma=none", None),
        ("sigma=0.5", 0.5),
        ("regime=static", "static"),
        ("model=runs/mine", "runs/mine"),
        ("model=007", "007"),
        ("model=a=b", "a=b"),
        ('model=__import__("os").system("id")', '__import__("os").system("id")'),
        ("world=", ""),
        ("seeds=3,4", [3, 4]),
        ("seeds=[3, 4]", [3, 4]),
        ("end=7", 7),
        ("end=a.png", "a.png"),
        ("flag=yes", True),
        ("flag=0", False),
    ],
)
def test_text_becomes_the_declared_type(declaration, text, value):
    name, given = split_assignment(text)
    checked = declaration.check({name: given})[name]
    assert checked == value
    assert type(checked) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "nodes=5.5", "nodes=2", "nodes=202", "nodes=abc", "nodes=true", "nodes=1_0", "nodes=", "tol=nan",
        "tol=inf", "tol=fast", "sigma=-1", "regime=mepp", "world=moon", "seeds=a", "seeds=-1", "flag=maybe",
    ],
)  # fmt: skip
def test_ill_typed_text_is_refused_with_what_exists(declaration, text):
    name, given = split_assignment(text)
    with pytest.raises(SettingError, match=rf"got {name}='.*'; expected {name}: .*parameters: nodes, regime"):
        declaration.check({name: given})


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("tol", "1e-3", 0.001),
        ("tol", 1, 1.0),
        ("nodes", 5, 5),
        ("seeds", [1, "2"], [1, 2]),
        ("sigma", None, None),
    ],
)
def test_yaml_values_are_taken_where_they_fit(declaration, name, value, expected):
    checked = declaration.check({name: value})[name]
    assert checked == expected
    assert type(checked) is type(expected)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nodes", 5.0),
        ("nodes", True),
        ("model", 7),
        ("flag", 1),
        ("end", 1.5),
        ("seeds", 1),
        ("regime", None),
    ],
)
def test_yaml_values_of_another_type_are_refused(declaration, name, value):
    with pytest.raises(SettingError, match=f"got {name}="):
        declaration.check({name: value})


def test_an_unknown_name_is_refused_with_the_nearest(declaration):
    with pytest.raises(
        SettingError, match=r"unknown parameter 'nodez'; expected one of nodes, .*; try 'nodes'"
    ):
        declaration.check({"nodez": "3"})


def test_arguments_win_over_the_environment_over_the_preset_over_defaults(declaration):
    merged = gather(
        declaration,
        preset={"nodes": 11, "tol": "1e-4", "gamma": 8},
        arguments={"nodes": "21"},
        environment={"WORKBENCH_P_NODES": "31", "WORKBENCH_P_TOL": "1e-5", "HOME": "/"},
    )
    assert (merged["nodes"], merged["tol"], merged["gamma"], merged["regime"]) == (21, 1e-5, 8.0, "mep")


def test_an_unknown_name_in_the_environment_is_refused(declaration):
    with pytest.raises(SettingError, match=r"unknown parameter 'nodez' from the environment \(WORKBENCH_P_"):
        gather(declaration, preset={}, arguments={}, environment={"WORKBENCH_P_NODEZ": "1"})


@pytest.mark.parametrize("text", ["nodes", "=3", "a b=3", "1a=3"])
def test_an_assignment_needs_a_name_and_a_value(text):
    with pytest.raises(SettingError, match="-p name=value"):
        split_assignment(text)


@pytest.mark.parametrize(
    "line",
    ["import os", "nodes = f()", "nodes: int = 'a'", "nodes: int = 2  # 3..9", "a: set = {1}", "x = y = 1",
     "n: int", "w: str = 'c'  # a|b, one of two", f"n: int = {hex(10**400)}"],
)  # fmt: skip
def test_a_cell_of_more_than_literals_is_refused(line):
    with pytest.raises(SettingError, match=r"line 1 of the parameters cell of paths"):
        parse_declaration(line, "paths")


def test_the_cell_can_be_written_back_with_other_values(declaration):
    text = parameters_cell(declaration, {"nodes": 7, "model": 'a"b\\'})
    again = parse_declaration(text, "paths")
    assert again.defaults == {**declaration.defaults, "nodes": 7, "model": 'a"b\\'}
    assert [(p.constraint, p.about) for p in again.parameters] == [
        (p.constraint, p.about) for p in declaration.parameters
    ]


@pytest.mark.parametrize(
    "text", ['"', "\\", '\\"', "'", "a\nb", "${x}", "{x}", "ü", "\\n", '"); import os; ("']
)
def test_injected_text_stays_text(text):
    """The line that papermill writes is a literal whose value is the text."""
    line = PythonTranslator.codify({"model": text})
    (assignment,) = ast.parse(line).body
    assert ast.literal_eval(assignment.value) == text


def test_a_line_that_a_formatter_wrapped_keeps_its_comment():
    (parameter,) = parse_declaration('model: str = (\n    "a"  # a|b, which one\n)').parameters
    assert (parameter.default, parameter.choices, parameter.about) == ("a", ("a", "b"), "which one")


@pytest.mark.parametrize("cells", [None, "two"])
def test_exactly_one_parameters_cell_is_asked_for(tmp_path, cells):
    path = write_notebook(tmp_path, "1", parameters=None)
    if cells == "two":
        node = nbformat.read(path, 4)
        node.cells += [
            nbformat.v4.new_code_cell("a = 1", metadata={"tags": ["parameters"]}) for _ in range(2)
        ]
        nbformat.write(node, path)
    with pytest.raises(SettingError, match=r"tiny.ipynb with [02] cells tagged 'parameters'"):
        declared(open_notebook(path))


@pytest.mark.parametrize("name", ["_x", "schema", "model_config", "copy", "p1"])
def test_names_that_pydantic_keeps_for_itself_are_parameters_like_others(name):
    declaration = parse_declaration(f"{name}: int = 2  # 1..3\np0: int = 7", "paths")
    assert declaration.check({name: "3"}) == {name: 3}
    with pytest.raises(SettingError, match=f"got {name}='9'; expected {name}: int 1..3"):
        declaration.check({name: "9"})


def test_a_name_stands_once_in_the_cell():
    with pytest.raises(SettingError, match="got n twice in the parameters cell of paths"):
        parse_declaration("n: int = 1\nm: int = 1\nn: int = 2", "paths")


@pytest.mark.parametrize(
    ("name", "value"),
    [("nodes", "9" * 5000), ("nodes", 10**6000), ("gamma", 10**400), ("regime", "x" * 5000)],
    ids=["digits", "integer", "float", "text"],
)
def test_a_long_value_is_refused_in_a_short_sentence(declaration, name, value):
    with pytest.raises(SettingError, match=f"got {name}=") as refused:
        declaration.check({name: value})
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    "text",
    [
        "fast: {parameters: [1, 2]}",
        "fast: {parameters: {1: 2}}",
        "fast: {about: 5}",
        "fast: {regress: maybe}",
        "fast: {other: 1}",
        "fast: {1: 2}",
        "fast: 3",
        "fast: {parameters: {n: 2020-13-45}}",
        "fast: {parameters: {n: " + "9" * 5000 + "}}",
        "fast: {parameters: {n: !!int ''}}",
        "fast: " + "[" * 3000 + "]" * 3000,
    ],
    ids=lambda text: text[:30],
)
def test_presets_that_cannot_be_read_are_refused_in_one_sentence(tmp_path, text):
    path = write_notebook(tmp_path, "1", parameters="n: int = 1")
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets" / "tiny.yaml").write_text(text)
    with pytest.raises(DataError, match=r"tiny\.yaml") as refused:
        open_notebook(path).presets()
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["x" * 300, "x" * 5000 + ".ipynb"], ids=["300", "5006"])
def test_a_name_longer_than_any_file_is_refused(name):
    with pytest.raises(SettingError, match="got notebook 'xxx"):
        open_notebook(name)
