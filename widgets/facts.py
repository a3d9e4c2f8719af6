"""Names and values beside a picture, as a small HTML table in the colours of the host."""

import html
from collections.abc import Sequence

from widgets.theme import Theme


def host_colour(role: str, look: Theme) -> str:
    """A colour for text that stands on the host's own paper: JupyterLab's where there is one.

    Args:
        role: "ink", "muted" or "warning".
        look: The theme to fall back on.
    """
    variables = {
        "ink": "--jp-ui-font-color1",
        "muted": "--jp-ui-font-color2",
        "warning": "--jp-error-color1",
    }
    return f"var({variables[role]}, {getattr(look, role)})"


def facts_table(rows: Sequence[tuple[str, str]], look: Theme) -> str:
    """The table.

    Args:
        rows: Name and value, as they are printed.
        look: The theme.

    Returns:
        HTML; names and values are escaped.
    """
    name_style = f"text-align:left;font-weight:400;color:{host_colour('muted', look)};padding:1px 10px 1px 0"
    cells = "".join(
        f'<tr><th scope="row" style="{name_style}">{html.escape(name)}</th>'
        f'<td style="font-variant-numeric:tabular-nums">{html.escape(value)}</td></tr>'
        for name, value in rows
    )
    return (
        f'<table class="wb-facts" style="line-height:1.35;color:{host_colour("ink", look)}">{cells}</table>'
    )
