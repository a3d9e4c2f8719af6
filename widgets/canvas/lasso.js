// A lasso: shift and drag draws a line around points; letting go reports its corners in the picture's coordinates. What
// lies inside is the kernel's to say. Shift and a click without a drag clears the selection.

const CORNERS = 96; // corners that a lasso keeps

function lassoTool({ svg, place, inside, model }) {
  let held = null; // {pointer, points: [[px, py, x, y], ...]}
  const outline = document.createElementNS("http://www.w3.org/2000/svg", "path");
  outline.setAttribute("class", "wb-lasso");
  svg.appendChild(outline);
  const draw = () =>
    outline.setAttribute("d", held ? held.points.map(([px, py], k) => `${k ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join("") + "Z" : "");
  function begin(event) {
    const at = place(event);
    if (event.button !== 0 || !event.shiftKey || !inside(at) || event.target.closest?.(".wb-point")) return;
    event.preventDefault(); event.stopImmediatePropagation();
    svg.setPointerCapture(event.pointerId);
    held = { pointer: event.pointerId, points: [[at.px, at.py, at.x, at.y]] };
  }
  function go(event) {
    if (!held || event.pointerId !== held.pointer) return;
    event.stopImmediatePropagation();
    const at = place(event), [px, py] = held.points[held.points.length - 1];
    if ((at.px - px) ** 2 + (at.py - py) ** 2 < 9) return;
    held.points.push([at.px, at.py, at.x, at.y]);
    draw();
  }
  function end(event) {
    if (!held || event.pointerId !== held.pointer) return;
    event.stopImmediatePropagation();
    const { points } = held, step = Math.max(1, Math.ceil(points.length / CORNERS));
    held = null;
    draw();
    const kept = points.length < 3 ? [] : points.filter((_, k) => k % step === 0);
    model.set("lasso", kept.flatMap(([, , x, y]) => [x, y]));
    model.save_changes();
  }
  svg.addEventListener("pointerdown", begin);
  svg.addEventListener("pointermove", go);
  svg.addEventListener("pointerup", end);
  svg.addEventListener("pointercancel", () => { held = null; draw(); });
}
