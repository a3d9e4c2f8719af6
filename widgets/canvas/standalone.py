"""The canvas as a page of its own: one HTML file that opens anywhere, offline, with nothing behind it.

Points can be dragged and the picture magnified; as there is no kernel, nothing is computed anew.
"""

import base64
import html
import json
from typing import Any

from widgets.canvas.canvas import MODULE, STYLE, Canvas

_HOST = """
const traits = JSON.parse(document.getElementById("traits").textContent);
for (const [name, text] of Object.entries(traits.buffers)) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  traits.plain[name] = new DataView(bytes.buffer);
}
const listeners = {};
window.model = {
  get: (name) => traits.plain[name],
  set: (name, value) => { traits.plain[name] = value; for (const call of listeners[name] ?? []) call(); },
  save_changes: () => window.model.set("answered", traits.plain.gesture?.seq ?? 0),
  on: (event, call) => (listeners[event.replace("change:", "")] ??= []).push(call),
  off: () => {},
};
render({ model: window.model, el: document.querySelector("main") });
"""


def canvas_html(canvas: Canvas, *, title: str = "canvas") -> str:
    """A page that shows what a canvas shows.

    Args:
        canvas: The canvas, with or without a front end.
        title: Title of the page.

    Returns:
        HTML that requests nothing. `window.model` holds the traits, for scripts.
    """
    state: dict[str, Any] = {
        name: value
        for name, value in canvas.get_state().items()
        if not name.startswith(("_", "layout", "tabbable", "tooltip"))
    }
    buffers = {k: base64.b64encode(v).decode("ascii") for k, v in state.items() if isinstance(v, bytes)}
    plain = {k: v for k, v in state.items() if k not in buffers}
    text = json.dumps({"plain": plain, "buffers": buffers}).replace("</", "<\\/")
    module = MODULE.replace("export default { render };", "").replace("</script", "<\\/script")
    style = STYLE.read_text(encoding="utf-8")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>body{{margin:0}}{style}</style></head><body><main></main>"
        f'<script type="application/json" id="traits">{text}</script>'
        f'<script type="module">{module}{_HOST}</script></body></html>'
    )
