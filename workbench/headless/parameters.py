"""Parameters of a notebook: declared once, in its parameters cell, and checked before a kernel starts.

Each line of the cell is ``name: type = default  # constraint, what it is``::

    nodes: int = 33                 # 3..201, images on the string
    regime: str = "mep"             # mep|transport|principal|static, which string to find
    model: str = "fashion"          # fashion|digits|..., a shipped model or a folder
    sigma: float | None = None      # 0.., noise level; None lets the method choose

``low..high`` is a range (either side may be missing), ``a|b`` are the choices, ``...`` among them admits
anything else. Types are int, float, str, bool, list[...] and unions of those with None. From these lines
a pydantic model is built; values from the command line, from a preset and from the environment pass
through it, so that ``1e-3`` is a float, ``007`` stays text where text is declared, and nothing is ever
evaluated as code.
"""

import ast
import difflib
import io
import os
import re
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin

import pydantic

from workbench.errors import SettingError
from workbench.headless.catalog import Notebook, shown

ENVIRONMENT = "WORKBENCH_P_"
_PLAIN = {"int": int, "float": float, "str": str, "bool": bool, "None": NoneType}
_TRUE, _FALSE, _NONE = ("true", "yes", "on", "1"), ("false", "no", "off", "0"), ("none", "null")
_BITS = 1024  # of an integer: what a double can still hold
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(rf"(?P<low>{_NUMBER})?\.\.(?!\.)(?P<high>{_NUMBER})?(?:\s*[,;]\s*|\s*$)")
_CHOICES = re.compile(r"(?P<all>[^\s,;|]*(?:\|[^\s,;|]*)+)(?:\s*[,;]\s*|\s*$)")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One line of a parameters cell.

    Attributes:
        name: Its name.
        kind: Its type.
        default: The value in the cell.
        low: Smallest admitted number, or None.
        high: Largest admitted number, or None.
        choices: Admitted texts; () if free.
        open: True if other texts than the choices are admitted too.
        about: What it is.
    """

    name: str
    kind: Any
    default: Any
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    open: bool = False
    about: str = ""

    @property
    def type_name(self) -> str:
        """Its type in words."""
        return self.kind.__name__ if isinstance(self.kind, type) else str(self.kind)

    @property
    def constraint(self) -> str:
        """Its constraint in the words of the cell; "" if there is none."""
        if self.choices:
            return "|".join((*self.choices, *(("...",) if self.open else ())))
        if self.low is None and self.high is None:
            return ""
        low, high = ("" if bound is None else f"{bound:.12g}" for bound in (self.low, self.high))
        return f"{low}..{high}"

    def expected(self) -> str:
        """Type and constraint, for a message."""
        return f"{self.type_name} {self.constraint}".strip()


@dataclass(frozen=True, slots=True)
class Declaration:
    """All parameters of one notebook."""

    notebook: str
    parameters: tuple[Parameter, ...]

    def __contains__(self, name: str) -> bool:
        return any(p.name == name for p in self.parameters)

    @property
    def defaults(self) -> dict[str, Any]:
        """Name to default, in the order of the cell."""
        return {p.name: p.default for p in self.parameters}

    def model(self) -> type[pydantic.BaseModel]:
        """The pydantic model that checks values: strict types, ranges, choices, no other names."""
        fields: dict[str, Any] = {}
        for number, p in enumerate(self.parameters):  # aliases: pydantic keeps some names for itself
            kind = Annotated[
                p.kind,
                pydantic.BeforeValidator(partial(coerce, kind=p.kind)),
                pydantic.AfterValidator(partial(_within, parameter=p)),
            ]
            fields[f"p{number}"] = (kind, pydantic.Field(p.default, alias=p.name, description=p.about))
        config = pydantic.ConfigDict(
            extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=()
        )
        return pydantic.create_model("Parameters", __config__=config, **fields)

    def check(self, given: Mapping[str, Any], *, source: str = "") -> dict[str, Any]:
        """Check and convert values; names that are not given keep their defaults.

        Args:
            given: Name to text or typed value.
            source: Where they came from, for the message.

        Returns:
            The given names with their converted values.

        Raises:
            SettingError: For an unknown name, a wrong type or a value out of range; lists what exists.
        """
        where = f" from {source}" if source else ""
        known = [p.name for p in self.parameters]
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(str(name), known, n=1)
                raise SettingError(
                    f"unknown parameter {shown(name)}{where}",
                    f"one of {', '.join(known) or '(none: the cell is empty)'}",
                    f"{near[0]!r}" if near else f"`workbench list {self.notebook}`",
                )
        try:
            checked = self.model()(**given)
        except pydantic.ValidationError as error:
            name = str(error.errors()[0]["loc"][0])
            parameter = next(p for p in self.parameters if p.name == name)
            raise SettingError(
                f"{name}={shown(given[name])}{where}",
                f"{name}: {parameter.expected()} (parameters: {', '.join(known)})",
                repr(parameter.default),
            ) from None
        values = checked.model_dump(by_alias=True)
        return {name: values[name] for name in given}


def declared(notebook: Notebook) -> Declaration:
    """Read the declaration from the parameters cell.

    Args:
        notebook: An opened notebook.

    Returns:
        Its parameters.

    Raises:
        SettingError: If there is no such cell, or a line in it is more than a name, a type and a literal.
    """
    return parse_declaration(notebook.parameters_source, notebook.name)


def parse_declaration(source: str, name: str = "notebook") -> Declaration:
    """Read a declaration from the text of a parameters cell.

    Args:
        source: The text.
        name: The notebook, for messages.

    Returns:
        Its parameters.

    Raises:
        SettingError: If a line is more than a name, a type and a literal.
    """
    try:
        tree = ast.parse(source)
        comments = {
            token.start[0]: token.string.lstrip("# ").strip()
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type == tokenize.COMMENT
        }
    except (ValueError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError) as error:
        raise SettingError(f"a parameters cell in {name} that is not Python ({error})") from None
    parameters = tuple(_parameter(node, comments, name) for node in tree.body)
    names = [p.name for p in parameters]
    if twice := sorted({n for n in names if names.count(n) > 1}):
        raise SettingError(f"{', '.join(twice)} twice in the parameters cell of {name}", "each name once")
    return Declaration(name, parameters)


def gather(
    declaration: Declaration,
    *,
    preset: Mapping[str, Any],
    arguments: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Merge the sources of parameters: arguments over environment over preset over defaults.

    Args:
        declaration: What the notebook declares.
        preset: Values of a preset.
        arguments: Values of this call (``-p name=value``).
        environment: Variables, ``WORKBENCH_P_NODES=21``; those of the process by default.

    Returns:
        A value for every declared name.

    Raises:
        SettingError: As ``Declaration.check``.
    """
    environment = os.environ if environment is None else environment
    names = {p.name.upper(): p.name for p in declaration.parameters}
    variables = {
        names.get(key.removeprefix(ENVIRONMENT), key.removeprefix(ENVIRONMENT).lower()): value
        for key, value in environment.items()
        if key.startswith(ENVIRONMENT)
    }
    return {
        **declaration.defaults,
        **declaration.check(preset, source="the preset"),
        **declaration.check(variables, source=f"the environment ({ENVIRONMENT}*)"),
        **declaration.check(arguments),
    }


def split_assignment(text: str) -> tuple[str, str]:
    """``name=value`` as given to ``-p``; the value stays text.

    Raises:
        SettingError: If there is no name.
    """
    name, equals, value = text.partition("=")
    if not (equals and name.isidentifier()):
        raise SettingError(f"-p {shown(text)}", "-p name=value", "-p nodes=33")
    return name, value


def parameters_cell(declaration: Declaration, values: Mapping[str, Any]) -> str:
    """The text of the parameters cell with other defaults, comments and all ("copy as parameters").

    Args:
        declaration: What the notebook declares.
        values: Name to value, for some of the names.

    Returns:
        Python, one line for each parameter.
    """
    merged = {**declaration.defaults, **declaration.check(values)}
    heads = [f"{p.name}: {p.type_name} = {merged[p.name]!r}" for p in declaration.parameters]
    width = max(map(len, heads), default=0)
    notes = [", ".join(filter(None, (p.constraint, p.about))) for p in declaration.parameters]
    return "\n".join(f"{h:<{width}}  # {n}" if n else h for h, n in zip(heads, notes, strict=True))


def coerce(value: Any, *, kind: Any) -> Any:
    """Turn text into the declared type; leave other values to the strict check.

    Args:
        value: Text, or a typed value from YAML.
        kind: The declared type.

    Returns:
        The converted value, or ``value`` itself where it cannot be converted.
    """
    for branch in sorted(_branches(kind), key=lambda b: b is str):  # text is the last resort
        try:
            return _coerce_plain(value, branch)
        except (ValueError, TypeError, OverflowError):
            continue
    raise ValueError(f"not {kind}")


def _coerce_plain(value: Any, kind: Any) -> Any:
    text = value.strip().lower() if isinstance(value, str) else None
    if kind is NoneType:
        if value is None or text in _NONE:
            return None
    elif kind is str:
        if isinstance(value, str):
            return value
    elif kind is bool:
        if isinstance(value, bool):
            return value
        if text in _TRUE + _FALSE:
            return text in _TRUE
    elif kind in (int, float):
        if isinstance(value, kind) and not isinstance(value, bool):
            if isinstance(value, int) and value.bit_length() > _BITS:
                raise ValueError(kind)
            return value
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if text is not None and "_" not in text:
            return kind(text)
    elif get_origin(kind) is list:
        if text is not None:
            inner = value.strip().removeprefix("[").removesuffix("]").strip()
            value = [part.strip().strip("'\"") for part in inner.split(",")] if inner else []
        if isinstance(value, list):
            (element,) = get_args(kind)
            return [coerce(item, kind=element) for item in value]
    raise ValueError(kind)


def _branches(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if isinstance(kind, UnionType) else (kind,)


def _within(value: Any, *, parameter: Parameter) -> Any:
    items = value if isinstance(value, list) else [value]
    for item in items:
        if isinstance(item, str):
            if parameter.choices and not parameter.open and item not in parameter.choices:
                raise ValueError("not among the choices")
        elif item is not None and not isinstance(item, bool):
            low, high = parameter.low, parameter.high
            if not ((low is None or item >= low) and (high is None or item <= high)):
                raise ValueError("out of range")
    return value


def _parameter(node: ast.stmt, comments: Mapping[int, str], notebook: str) -> Parameter:
    try:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            name, kind = node.target.id, _kind(node.annotation)
            default = ast.literal_eval(node.value)
        elif (
            isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
        ):
            name, default = node.targets[0].id, ast.literal_eval(node.value)
            kind = _kind_of(default)
        else:
            raise ValueError
        default = coerce(default, kind=kind)
        lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)  # a formatter may have wrapped it
        comment = " ".join(comments[line] for line in lines if line in comments)
        parameter = _with_comment(name, kind, default, comment)
        _within(default, parameter=parameter)
    except (ValueError, TypeError):
        raise SettingError(
            f"line {node.lineno} of the parameters cell of {notebook}: {ast.unparse(node)!r}",
            "name: type = literal, of int, float, str, bool, list[...] or a union, within its own constraint",
        ) from None
    return parameter


def _with_comment(name: str, kind: Any, default: Any, comment: str) -> Parameter:
    if match := _RANGE.match(comment):
        low, high = (None if g is None else float(g) for g in match.group("low", "high"))
        return Parameter(name, kind, default, low, high, about=comment[match.end() :])
    if match := _CHOICES.match(comment):
        choices = match["all"].split("|")
        kept = tuple(c for c in choices if c != "...")
        return Parameter(
            name, kind, default, choices=kept, open="..." in choices, about=comment[match.end() :]
        )
    return Parameter(name, kind, default, about=comment)


def _kind(annotation: ast.expr) -> Any:
    if isinstance(annotation, ast.Constant) and annotation.value is None:
        return NoneType
    if isinstance(annotation, ast.Name) and annotation.id in _PLAIN:
        return _PLAIN[annotation.id]
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return _kind(annotation.left) | _kind(annotation.right)
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "list":
        return list[_kind(annotation.slice)]
    raise ValueError("unknown type")


def _kind_of(default: Any) -> Any:
    if isinstance(default, list) and default:
        return list[type(default[0])]
    if type(default) in (int, float, str, bool):
        return type(default)
    raise ValueError("no type")
