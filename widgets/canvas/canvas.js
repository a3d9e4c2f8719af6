// The canvas: a field, curves over it, and points that can be dragged. One module for JupyterLab and for Panel.
// It draws what the kernel sends and reports gestures; every position on screen that is not the pointer's comes from
// the kernel. Nothing is imported and nothing is requested; the painter of clouds stands in points.js, joined before it.

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { left: 66, right: 16, top: 12, bottom: 48 };
const PATIENCE_MS = 2000; // after which a lost answer no longer holds the next message back
const REST_MS = 160; // without a move, after which a cloud is drawn in full
const DEEPEST = 1e4; // largest magnification

const floats = (view) => {
  if (!view || !view.byteLength) return new Float32Array(0);
  const buffer = view.buffer ?? view;
  const offset = view.byteOffset ?? 0;
  return new Float32Array(buffer.slice(offset, offset + view.byteLength)); // a copy: the offset may be unaligned
};
const octets = (view) =>
  !view || !view.byteLength ? new Uint8Array(0) : new Uint8Array(view.buffer ?? view, view.byteOffset ?? 0, view.byteLength);

function make(tag, attributes = {}, parent = null, text = null) {
  const node = tag.startsWith("svg:") ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== null) node.textContent = text;
  parent?.appendChild(node);
  return node;
}

function ticks(low, high, count) {
  const raw = (high - low) / Math.max(count, 1);
  if (!(raw > 0) || !Number.isFinite(raw)) return [];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= raw * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return found.map((value) => [value, (Math.abs(value) < step * 1e-6 ? 0 : value).toFixed(Math.min(digits, 6)).replace("-", "−")]);
}

const short = (value) => (Number.isFinite(value) ? String(Number(value.toPrecision(4))).replace("-", "−") : "—");

function render({ model, el }) {
  const get = (name) => model.get(name);
  const root = make("div", { class: "wb-canvas", "data-lm-suppress-shortcuts": "true" }, el);
  const stage = make("div", { class: "wb-stage" }, root);
  const paper = make("div", { class: "wb-paper", "aria-hidden": "true" }, stage);
  const ground = make("canvas", { class: "wb-ground" }, paper);
  const sky = make("canvas", { class: "wb-sky" }, paper);
  const paintClouds = cloudPainter(sky);
  const svg = make("svg:svg", { class: "wb-svg", role: "group" }, stage);
  const clipId = `wb-clip-${Math.random().toString(36).slice(2)}`;
  const clip = make("svg:rect", {}, make("svg:clipPath", { id: clipId }, make("svg:defs", {}, svg)));
  const axes = make("svg:g", { class: "wb-axes", "aria-hidden": "true" }, svg);
  const plot = make("svg:rect", { class: "wb-plot" }, svg);
  const curves = make("svg:g", { "clip-path": `url(#${clipId})` }, svg);
  const points = make("svg:g", {}, svg);
  const lenses = make("div", { class: "wb-zoom", role: "group", "aria-label": "magnification" }, stage);
  for (const [text, label, factor] of [["+", "zoom in", 0.5], ["−", "zoom out", 2], ["⟲", "show everything", 0]]) {
    const button = make("button", { type: "button", "aria-label": label, title: label }, lenses, text);
    button.addEventListener("click", () => (factor ? zoom(factor) : look(null)));
  }
  const bar = make("div", { class: "wb-busy", "aria-hidden": "true" }, stage);
  const tip = make("div", { class: "wb-tip", hidden: "" }, stage);
  const tipPixels = make("canvas", {}, tip);
  const tipText = make("span", {}, tip);
  const foot = make("div", { class: "wb-foot" }, root);
  const legend = make("div", { class: "wb-legend", role: "group", "aria-label": "curves shown" }, foot);
  const scale = make("div", { class: "wb-scale" }, foot);
  const readout = make("div", { class: "wb-readout", "aria-hidden": "true" }, root);
  const note = make("div", { class: "wb-note", role: "status", "aria-live": "polite" }, root);

  let large = 1;          // how much larger letters and points are drawn where the picture is shown small
  let width = 0, height = 0, inner = { x: 0, y: 0, w: 1, h: 1 };
  let field = new Float32Array(0), vertices = new Float32Array(0), pixels = new Uint8Array(0);
  let cloud = new Float32Array(0), cloudLabels = new Uint8Array(0), cloudCells = new Uint32Array(0);
  let ranges = { x: [0, 1], y: [0, 1] }; // the kernel's; asking the host for them at every vertex is slow
  let view = null;        // the part that is looked at, {x, y}; all of the kernel's ranges if null
  let pan = null;         // {px, py, view}: the background held by the pointer
  let sampled = false;    // whether the clouds on the screen are a sample
  let moving = 0;         // timer that ends a move of the view
  let drag = null;        // {id, x, y, pointer}: where the user holds a point; wins over the kernel until released
  let sent = { seq: 0, at: 0 };
  let pending = null;     // newest gesture that waits for the kernel's answer
  let frame = 0, dirty = new Set(["all"]);

  // ---- coordinates
  const seen = () => view ?? ranges;
  const toX = (x) => { const [a, b] = seen().x; return inner.x + ((x - a) / (b - a)) * inner.w; };
  const toY = (y) => { const [a, b] = seen().y; return inner.y + (1 - (y - a) / (b - a)) * inner.h; };
  function place(event) {
    const box = svg.getBoundingClientRect();
    const px = ((event.clientX - box.left) / box.width) * width, py = ((event.clientY - box.top) / box.height) * height;
    const { x: [a, b], y: [c, d] } = seen();
    return { px, py, x: a + ((px - inner.x) / inner.w) * (b - a), y: c + (1 - (py - inner.y) / inner.h) * (d - c) };
  }
  const inside = (p) => p.px >= inner.x && p.px <= inner.x + inner.w && p.py >= inner.y && p.py <= inner.y + inner.h;
  const clamp = (v, [low, high]) => Math.min(Math.max(v, low), high);

  // ---- gestures out: one a frame, and none while the kernel has not answered the last
  function post(gesture) {
    sent = { seq: sent.seq + 1, at: performance.now() };
    model.set("gesture", { ...gesture, seq: sent.seq });
    model.save_changes();
  }
  const waiting = () => (get("answered") ?? 0) < sent.seq && performance.now() - sent.at < PATIENCE_MS;
  function report(kind, id, x, y) {
    const gesture = { kind, id, x, y };
    if (kind === "move") { pending = gesture; schedule("send"); return; }
    pending = null;
    post(gesture);
  }
  function flush() {
    if (!pending || waiting()) return;
    const gesture = pending;
    pending = null;
    post(gesture);
  }

  // ---- drawing
  function schedule(...what) {
    what.forEach((part) => dirty.add(part));
    if (!frame) frame = requestAnimationFrame(paint);
  }
  function paint() {
    frame = 0;
    const parts = dirty;
    dirty = new Set();
    const all = parts.has("all");
    if (parts.has("send")) flush();
    if (all) measure();
    const turned = all || parts.has("view");
    if (all || parts.has("field")) drawField();
    if (turned) placeField();
    if (turned || parts.has("axes")) drawAxes();
    if (turned || parts.has("clouds")) drawClouds();
    if (turned || parts.has("curves")) drawCurves();
    if (all || parts.has("curves") || parts.has("clouds")) drawLegend();
    if (turned || parts.has("points")) drawPoints();
    if (all || parts.has("state")) drawState();
    if (pending && waiting()) setTimeout(() => schedule("send"), PATIENCE_MS);
  }
  function measure() {
    width = get("plot_width"); height = get("plot_height");
    inner = { x: MARGIN.left, y: MARGIN.top, w: width - MARGIN.left - MARGIN.right, h: height - MARGIN.top - MARGIN.bottom };
    stage.style.maxWidth = `${width}px`;
    stage.style.aspectRatio = `${width} / ${height}`;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    for (const rect of [clip, plot])
      for (const [k, v] of [["x", inner.x], ["y", inner.y], ["width", inner.w], ["height", inner.h]]) rect.setAttribute(k, v);
    Object.assign(paper.style, {
      left: `${(100 * inner.x) / width}%`, top: `${(100 * inner.y) / height}%`,
      width: `${(100 * inner.w) / width}%`, height: `${(100 * inner.h) / height}%`,
    });
    const palette = get("palette") ?? {};
    for (const [name, colour] of Object.entries(palette)) if (typeof colour === "string") root.style.setProperty(`--wb-${name}`, colour);
    root.dataset.theme = get("theme");
    svg.setAttribute("aria-label", get("caption"));
  }
  function drawField() {
    const [rows, columns] = get("field_shape");
    const known = rows * columns > 0 && field.length === rows * columns;
    ground.hidden = !known;
    scale.replaceChildren();
    scale.hidden = !known;
    if (!known) return;
    const table = (get("palette").field ?? ["#888888", "#eeeeee"]).map(channels);
    const inks = Uint32Array.from(table, (colour) => (packed(...colour) | 0xff000000) >>> 0);
    const [low, high] = get("field_limits"), steps = inks.length / (high - low), top = inks.length - 1;
    ground.width = columns; ground.height = rows;
    const context = ground.getContext("2d");
    const picture = context.createImageData(columns, rows), out = new Uint32Array(picture.data.buffer);
    for (let r = 0; r < rows; r++) {
      const from = (rows - 1 - r) * columns, to = r * columns;
      for (let c = 0; c < columns; c++) {
        const band = Math.floor((field[from + c] - low) * steps);
        if (band === band) out[to + c] = inks[band < 0 ? 0 : band > top ? top : band];
      }
    }
    context.putImageData(picture, 0, 0);
    make("span", {}, scale, short(low));
    const strip = make("span", { class: "wb-strip", "aria-hidden": "true" }, scale);
    strip.style.background = `linear-gradient(to right, ${table.map(([r, g, b], k) =>
      `rgb(${r} ${g} ${b}) ${(100 * k) / table.length}% ${(100 * (k + 1)) / table.length}%`).join(",")})`;
    make("span", {}, scale, `${short(high)}  ${get("field_title")}`);
  }
  // The ground covers the kernel's ranges; of it the part that is looked at lies in the frame.
  function placeField() {
    const { x: [a, b], y: [c, d] } = ranges, { x: [p, q], y: [r, s] } = seen();
    Object.assign(ground.style, {
      left: `${(100 * (a - p)) / (q - p)}%`, width: `${(100 * (b - a)) / (q - p)}%`,
      top: `${(100 * (s - d)) / (s - r)}%`, height: `${(100 * (d - c)) / (s - r)}%`,
    });
    root.classList.toggle("wb-zoomed", view !== null);
  }
  function drawClouds() {
    const clouds = get("clouds") ?? [];
    sky.hidden = clouds.length === 0;
    const { drawn, total } = paintClouds({ clouds, places: cloud, labels: cloudLabels, cells: cloudCells, view: seen(), faded,
      width: Math.round(inner.w), height: Math.round(inner.h), moving: moving !== 0 });
    stage.dataset.drawn = drawn; stage.dataset.inView = total;
    if (drawn < total) readout.textContent = `${drawn} of ${total} points drawn`;
    else if (sampled) leave();
    sampled = drawn < total;
  }
  function look(next) {
    const [a, b] = ranges.x;
    const whole = next && next.x[1] - next.x[0] >= (b - a) * 0.999;
    if (next && (next.x[1] - next.x[0]) * DEEPEST < b - a) return;
    view = next === null || whole ? null : next;
    clearTimeout(moving);
    moving = setTimeout(() => { moving = 0; schedule("clouds"); }, REST_MS);
    schedule("view");
  }
  function zoom(factor, at = null) {
    const { x, y } = seen(), centre = at ?? { x: (x[0] + x[1]) / 2, y: (y[0] + y[1]) / 2 };
    const scaled = ([low, high], about) => [about + (low - about) * factor, about + (high - about) * factor];
    look({ x: scaled(x, centre.x), y: scaled(y, centre.y) });
  }
  function drawAxes() {
    axes.replaceChildren();
    const floor = inner.y + inner.h, grid = field.length === 0 && !get("clouds")?.length;
    for (const [value, text] of ticks(...seen().x, Math.max(2, inner.w / (90 * Math.sqrt(large))))) {
      const x = toX(value);
      if (grid) make("svg:line", { class: "wb-grid", x1: x, x2: x, y1: inner.y, y2: floor }, axes);
      make("svg:line", { x1: x, x2: x, y1: floor, y2: floor + 5 }, axes);
      make("svg:text", { x, y: floor + 7 + 11 * large, "text-anchor": "middle" }, axes, text);
    }
    for (const [value, text] of ticks(...seen().y, Math.max(2, inner.h / (70 * Math.sqrt(large))))) {
      const y = toY(value);
      if (grid) make("svg:line", { class: "wb-grid", x1: inner.x, x2: inner.x + inner.w, y1: y, y2: y }, axes);
      make("svg:line", { x1: inner.x - 5, x2: inner.x, y1: y, y2: y }, axes);
      make("svg:text", { x: inner.x - 9, y: y + 4, "text-anchor": "end" }, axes, text);
    }
    make("svg:text", { class: "wb-title", x: inner.x + inner.w / 2, y: floor + 36 + 3 * large * large, "text-anchor": "middle" }, axes, get("x_title"));
    make("svg:text", { class: "wb-title", "text-anchor": "middle",
      transform: `translate(15 ${inner.y + inner.h / 2}) rotate(-90)` }, axes, get("y_title"));
  }
  const faded = (name) => (get("hidden") ?? []).includes(name);
  function drawCurves() {
    curves.replaceChildren();
    for (const curve of get("curves")) {
      const group = make("svg:g", { class: "wb-curve", "data-name": curve.name, opacity: faded(curve.name) ? 0.12 : curve.opacity ?? 1 }, curves);
      const at = (k) => [toX(vertices[2 * (curve.offset + k)]), toY(vertices[2 * (curve.offset + k) + 1])];
      if (curve.kind === "line") {
        let d = "";
        let pen = false; // a vertex that is no number lifts it: one curve of several pieces
        for (let k = 0; k < curve.count; k++) {
          const [x, y] = at(k), known = Number.isFinite(x + y);
          if (known) d += `${pen ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`;
          pen = known;
        }
        if (curve.halo) make("svg:path", { d, class: "wb-halo", "stroke-width": curve.width + 3 }, group);
        make("svg:path", { d, stroke: curve.colour, "stroke-width": curve.width, "stroke-dasharray": curve.dash ?? "" }, group);
      }
      if (curve.kind === "dots" || curve.nodes)
        for (let k = 0; k < curve.count; k++) { const [cx, cy] = at(k);
          make("svg:circle", { cx, cy, r: curve.kind === "dots" ? curve.width : curve.nodes, fill: curve.colour, stroke: "none" }, group); }
      if (curve.kind === "crosses")
        for (let k = 0; k < curve.count; k++) { const [x, y] = at(k), s = curve.width;
          for (const [stroke, w] of [["var(--wb-paper)", 5], [curve.colour, 2.4]])
            make("svg:path", { d: `M${x - s} ${y - s}L${x + s} ${y + s}M${x - s} ${y + s}L${x + s} ${y - s}`, stroke, "stroke-width": w }, group); }
    }
  }
  function drawLegend() {
    const held = legend.contains(document.activeElement) ? document.activeElement.dataset.name : null;
    legend.replaceChildren();
    for (const curve of [...(get("clouds") ?? []), ...get("curves")]) {
      const off = faded(curve.name), dots = curve.colours?.slice(0, 3) ?? (curve.kind === "dots" ? [curve.colour] : []);
      const button = make("button", { type: "button", "data-name": curve.name, "aria-pressed": String(!off), title: off ? "show" : "fade" }, legend);
      const swatch = make("svg:svg", { viewBox: "0 0 26 10", width: 26, height: 10, "aria-hidden": "true" }, button);
      if (curve.kind === "line") make("svg:path", { d: "M1 5H25", stroke: curve.colour, "stroke-width": curve.width, "stroke-dasharray": curve.dash ?? "" }, swatch);
      else if (dots.length) dots.forEach((fill, k) => make("svg:circle", { cx: 13 + 7 * (k - (dots.length - 1) / 2), cy: 5, r: 3, fill }, swatch));
      else make("svg:path", { d: "M9 1L17 9M9 9L17 1", stroke: curve.colour, "stroke-width": 2 }, swatch);
      make("span", {}, button, curve.name);
      button.addEventListener("click", () => {
        const now = get("hidden") ?? [];
        model.set("hidden", off ? now.filter((name) => name !== curve.name) : [...now, curve.name]);
        model.save_changes();
      });
      if (held === curve.name) button.focus();
    }
  }
  const spot = (handle) => (drag && drag.id === handle.id ? drag : handle);
  function drawPoints() {
    const held = points.contains(document.activeElement) ? document.activeElement.dataset.id : null;
    const known = new Map([...points.children].map((node) => [node.dataset.id, node]));
    for (const handle of get("handles")) {
      const node = known.get(handle.id) ?? makePoint(handle);
      known.delete(handle.id);
      const { x, y } = spot(handle);
      node.setAttribute("transform", `translate(${toX(x)} ${toY(y)}) scale(${large})`);
      const px = toX(x), py = toY(y), out = px < inner.x - 1 || px > inner.x + inner.w + 1 || py < inner.y - 1 || py > inner.y + inner.h + 1;
      node.style.display = view && out ? "none" : "";
      node.setAttribute("aria-label", handle.label);
      node.setAttribute("aria-valuenow", x.toPrecision(6));
      node.setAttribute("aria-valuetext", `${get("x_title")} ${short(x)}, ${get("y_title")} ${short(y)}`);
      node.dataset.kind = handle.kind;
      node.querySelector("text").textContent = handle.label;
      node.querySelector("text").setAttribute("text-anchor", toX(x) > inner.x + 0.8 * inner.w ? "end" : "start");
      node.querySelector("text").setAttribute("x", toX(x) > inner.x + 0.8 * inner.w ? -13 : 13);
      if (held === handle.id) node.focus({ preventScroll: true });
    }
    for (const [id, node] of known) if (!drag || drag.id !== id) node.remove();
  }
  function makePoint(handle) {
    const node = make("svg:g", { class: "wb-point", tabindex: 0, role: "slider", "data-id": handle.id,
      "aria-roledescription": "movable point; arrow keys move it" }, points);
    make("svg:circle", { class: "wb-grip", r: 18 }, node);
    if (handle.kind === "end") make("svg:rect", { class: "wb-dot", x: -7, y: -7, width: 14, height: 14, rx: 2 }, node);
    else if (handle.kind === "via") make("svg:path", { class: "wb-dot", d: "M0 -9L9 0L0 9L-9 0Z" }, node);
    else make("svg:circle", { class: "wb-dot", r: 8 }, node);
    make("svg:text", { x: 13, y: -10 }, node);
    node.addEventListener("pointerdown", (event) => grab(event, handle.id, node));
    node.addEventListener("pointermove", move);
    node.addEventListener("pointerup", release);
    node.addEventListener("pointercancel", release);
    node.addEventListener("keydown", (event) => nudge(event, handle.id));
    node.addEventListener("keyup", (event) => { if (drag && drag.keys && event.key.startsWith("Arrow")) release(event); });
    node.addEventListener("blur", (event) => { if (drag && drag.keys) release(event); });
    node.addEventListener("dblclick", (event) => event.stopPropagation());
    return node;
  }

  // ---- gestures in
  const find = (id) => get("handles").find((handle) => handle.id === id);
  function grab(event, id, node) {
    if (event.button !== 0) return;
    event.preventDefault(); event.stopPropagation();
    node.setPointerCapture(event.pointerId);
    node.focus({ preventScroll: true });
    const at = place(event), { x, y } = find(id);
    drag = { id, x, y, dx: x - at.x, dy: y - at.y, pointer: event.pointerId };
    root.classList.add("wb-dragging");
    tip.hidden = true;
    report("start", id, x, y);
  }
  function move(event) {
    if (!drag || event.pointerId !== drag.pointer) return;
    const at = place(event);
    drag.x = clamp(at.x + drag.dx, seen().x);
    drag.y = clamp(at.y + drag.dy, seen().y);
    readout.textContent = `${get("x_title")} ${short(drag.x)} · ${get("y_title")} ${short(drag.y)}`;
    report("move", drag.id, drag.x, drag.y);
    schedule("points");
  }
  function release() {
    if (!drag) return;
    const { id, x, y } = drag;
    settle(id, x, y);
    drag = null;
    root.classList.remove("wb-dragging");
    report("end", id, x, y);
    schedule("points");
  }
  // The kernel will say the same; until it does the point stays where it was let go.
  function settle(id, x, y) {
    model.set("handles", get("handles").map((handle) => (handle.id === id ? { ...handle, x, y } : handle)));
  }
  const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  function nudge(event, id) {
    const step = STEPS[event.key];
    if (step) {
      event.preventDefault(); event.stopPropagation();
      const share = event.shiftKey ? 0.05 : event.altKey ? 0.001 : 0.01;
      const { x: [a, b], y: [c, d] } = seen();
      if (!drag) { drag = { ...find(id), keys: true }; report("start", id, drag.x, drag.y); }
      drag.x = clamp(drag.x + step[0] * share * (b - a), [a, b]);
      drag.y = clamp(drag.y + step[1] * share * (d - c), [c, d]);
      report("move", id, drag.x, drag.y);
      schedule("points");
    } else if ((event.key === "Delete" || event.key === "Backspace") && find(id)?.kind === "via") {
      event.preventDefault(); event.stopPropagation();
      report("remove", id, find(id).x, find(id).y);
    }
  }
  function add(event) {
    const at = place(event);
    if (get("can_add") && inside(at)) report("add", "", at.x, at.y);
  }
  function hold(event) {
    if (!view || event.button !== 0) return;
    pan = { px: event.clientX, py: event.clientY, view, pointer: event.pointerId };
    svg.setPointerCapture(event.pointerId);
    root.classList.add("wb-dragging");
  }
  function letGo() { if (pan) { pan = null; root.classList.remove("wb-dragging"); } }
  function shift(event) {
    const box = svg.getBoundingClientRect(), { x: [a, b], y: [c, d] } = pan.view;
    const dx = ((event.clientX - pan.px) / box.width) * width * ((b - a) / inner.w);
    const dy = ((event.clientY - pan.py) / box.height) * height * ((d - c) / inner.h);
    look({ x: [a - dx, b - dx], y: [c + dy, d + dy] });
  }
  function wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return; // a plain wheel scrolls the page
    event.preventDefault();
    zoom(Math.exp(event.deltaY * 0.0025), place(event));
  }
  function hover(event) {
    if (drag) return;
    if (pan && event.pointerId === pan.pointer) { shift(event); return; }
    const at = place(event);
    if (!inside(at)) return leave();
    const [rows, columns] = get("field_shape");
    let text = `${get("x_title")} ${short(at.x)} · ${get("y_title")} ${short(at.y)}`;
    if (field.length && field.length === rows * columns) {
      const { x: [a, b], y: [c, d] } = ranges;
      const column = Math.round(((at.x - a) / (b - a)) * (columns - 1)), row = Math.round(((at.y - c) / (d - c)) * (rows - 1));
      text += ` · ${get("field_title")} ${short(field[row * columns + column])}`;
    }
    readout.textContent = text;
    showThumb(at);
  }
  function showThumb(at) {
    const curve = get("curves").find((one) => one.name === get("thumb_curve"));
    const [count, rows, columns] = get("thumb_shape");
    if (!curve || !count || faded(curve.name)) { tip.hidden = true; return; }
    let best = -1, near = 18 * 18;
    for (let k = 0; k < Math.min(curve.count, count); k++) {
      const dx = toX(vertices[2 * (curve.offset + k)]) - at.px, dy = toY(vertices[2 * (curve.offset + k) + 1]) - at.py;
      if (dx * dx + dy * dy < near) { near = dx * dx + dy * dy; best = k; }
    }
    tip.hidden = best < 0;
    if (best < 0) return;
    tipPixels.width = columns; tipPixels.height = rows;
    const side = 84 / Math.max(columns, rows);
    Object.assign(tipPixels.style, { width: `${side * columns}px`, height: `${side * rows}px` });
    const picture = tipPixels.getContext("2d").createImageData(columns, rows);
    const from = best * rows * columns;
    for (let k = 0; k < rows * columns; k++) picture.data.set([pixels[from + k], pixels[from + k], pixels[from + k], 255], 4 * k);
    tipPixels.getContext("2d").putImageData(picture, 0, 0);
    tipText.textContent = get("thumb_names")[best] ?? `node ${best}`;
    const right = at.px > width / 2;
    Object.assign(tip.style, { left: right ? "" : `${(100 * (at.px + 16)) / width}%`, right: right ? `${100 - (100 * (at.px - 16)) / width}%` : "",
      top: `${Math.min((100 * at.py) / height, 62)}%` });
  }
  function leave() { readout.textContent = get("hint") || "\u00a0"; tip.hidden = true; }
  function drawState() {
    root.classList.toggle("wb-working", Boolean(get("busy")));
    note.textContent = get("note");
    note.hidden = !get("note");
  }
  lassoTool({ svg, place, inside, model });
  dropTool({ root, model });
  svg.addEventListener("dblclick", add);
  svg.addEventListener("wheel", wheel, { passive: false });
  svg.addEventListener("pointerdown", hold);
  svg.addEventListener("pointerup", letGo);
  svg.addEventListener("pointercancel", letGo);
  svg.addEventListener("pointermove", hover);
  svg.addEventListener("pointerleave", leave);
  leave();

  // ---- the kernel's side
  const read = {
    field: () => { field = floats(get("field")); },
    vertices: () => { vertices = floats(get("vertices")); },
    thumbs: () => { pixels = octets(get("thumbs")); },
    cloud_points: () => { cloud = floats(get("cloud_points")); },
    cloud_labels: () => { cloudLabels = octets(get("cloud_labels")); },
    cloud_cells: () => { cloudCells = new Uint32Array(floats(get("cloud_cells")).buffer); },
    x_range: () => { view = null; ranges = { x: get("x_range"), y: get("y_range") }; },
    y_range: () => read.x_range(),
    clip: () => { if (get("clip")) navigator.clipboard?.writeText(get("clip")).catch(() => {}); },
  };
  ["field", "vertices", "thumbs", "cloud_points", "cloud_labels", "cloud_cells", "x_range"].forEach((name) => read[name]());
  const parts = {
    field: ["field", "axes"], field_shape: ["field"], field_limits: ["field"], field_title: ["field"],
    vertices: ["curves"], curves: ["curves"], hidden: ["curves", "clouds"],
    clouds: ["clouds"], cloud_points: ["clouds"], cloud_labels: ["clouds"], cloud_cells: ["clouds"], handles: ["points"], thumbs: [], busy: ["state"], note: ["state"],
    x_range: ["all"], y_range: ["all"], x_title: ["all"], y_title: ["all"], plot_width: ["all"], plot_height: ["all"],
    theme: ["all"], palette: ["all"], caption: ["all"], answered: ["send"], clip: [], hint: ["state"],
  };
  const watchers = Object.entries(parts).map(([name, what]) => {
    const watcher = () => { read[name]?.(); if (what.length) schedule(...what); };
    model.on(`change:${name}`, watcher);
    return [name, watcher];
  });
  schedule("all");
  const sizes = new ResizeObserver(() => {
    const shown = stage.clientWidth, next = shown ? Math.min(1.9, Math.max(1, get("plot_width") / shown)) : 1;
    if (Math.abs(next - large) < 0.02) return;
    large = next;
    root.style.setProperty("--wb-large", large);
    schedule("axes", "points");
  });
  sizes.observe(stage);
  return () => {
    sizes.disconnect();
    cancelAnimationFrame(frame);
    clearTimeout(moving);
    for (const [name, watcher] of watchers) model.off(`change:${name}`, watcher);
    root.remove();
  };
}

export default { render };
