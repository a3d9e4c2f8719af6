// Clouds of points, up to some millions. They come sorted by the cells of a grid and in random order inside a cell, so
// that cells out of sight cost nothing and the first part of every cell is a fair sample of it: while the picture moves
// a sample of fixed size is drawn, at rest everything. Points add up in typed arrays; how dark a pixel gets depends on
// how many points it holds, and a sample counts for all that it stands for.

const MOVING = 150_000; // points drawn while the picture moves
const RESTING = 4_000_000; // and when it has come to rest
const FINE = 250_000; // above which a point is one pixel

const packed = (r, g, b) => (r | (g << 8) | (b << 16)) >>> 0;
const channels = (colour) => [1, 3, 5].map((k) => parseInt(colour.slice(k, k + 2), 16));

// The cells of a cloud that touch the view: [first, count] of each, and how many points they hold.
function cellsInView(cloud, cells, view) {
  const { side, box, cell, count } = cloud, found = [];
  const [[x0, x1], [y0, y1]] = box;
  const index = (v, a, b) => Math.min(side - 1, Math.max(0, Math.floor(((v - a) / (b - a || 1)) * side)));
  let held = 0;
  if (!count || view.x[1] < x0 || view.x[0] > x1 || view.y[1] < y0 || view.y[0] > y1) return { found, held };
  const left = index(view.x[0], x0, x1), right = index(view.x[1], x0, x1);
  const low = index(view.y[0], y0, y1), high = index(view.y[1], y0, y1);
  for (let row = low; row <= high; row++)
    for (let column = left; column <= right; column++) {
      const at = cell + row * side + column, first = cells[at], size = cells[at + 1] - first;
      if (size) { found.push(first, size); held += size; }
    }
  return { found, held };
}

// Offsets of the pixels of a disc in a picture of that width.
function disc(radius, width) {
  const reach = Math.floor(radius), offsets = [];
  for (let dy = -reach; dy <= reach; dy++)
    for (let dx = -reach; dx <= reach; dx++) if (dx * dx + dy * dy <= radius * radius + 0.41) offsets.push(dy * width + dx);
  return Int32Array.from(offsets);
}

// A painter of clouds on one canvas; `paint` returns how many points it drew and how many were in view.
function cloudPainter(canvas) {
  let sums = { size: 0 };
  function buffers(size) {
    if (sums.size !== size) sums = { size, n: new Float32Array(size), r: new Float32Array(size), g: new Float32Array(size), b: new Float32Array(size) };
    for (const name of ["n", "r", "g", "b"]) sums[name].fill(0);
    return sums;
  }
  return function paint({ clouds, places, labels, cells, view, width, height, moving, faded }) {
    canvas.width = width; canvas.height = height;
    let drawn = 0, total = 0;
    if (!clouds.length) return { drawn, total };
    const context = canvas.getContext("2d");
    const picture = context.createImageData(width, height), out = new Uint32Array(picture.data.buffer);
    const sights = clouds.map((cloud) => cellsInView(cloud, cells, view));
    const held = sights.reduce((sum, sight) => sum + sight.held, 0);
    const share = Math.min(1, (moving ? MOVING : RESTING) / Math.max(held, 1));
    const sx = width / (view.x[1] - view.x[0]), sy = height / (view.y[1] - view.y[0]);
    clouds.forEach((cloud, k) => {
      const { found, held: here } = sights[k];
      if (!here) return;
      const { n, r, g, b } = buffers(width * height);
      const radius = here * share > FINE ? 0 : cloud.radius, edge = Math.floor(radius), stamp = disc(radius, width);
      const stands = here > FINE ? share * stamp.length : share; // a larger disc stands for as much ink
      const table = cloud.colours.map(channels);
      for (let c = 0; c < found.length; c += 2) {
        const first = found[c], last = first + Math.ceil(found[c + 1] * share);
        drawn += last - first;
        for (let p = first; p < last; p++) {
          const px = Math.round((places[2 * p] - view.x[0]) * sx), py = Math.round((view.y[1] - places[2 * p + 1]) * sy);
          if (px < edge || py < edge || px >= width - edge || py >= height - edge) continue;
          const [cr, cg, cb] = table[labels[p]] ?? table[0], at = py * width + px;
          for (let s = 0; s < stamp.length; s++) { const q = at + stamp[s]; n[q] += 1; r[q] += cr; g[q] += cg; b[q] += cb; }
        }
      }
      total += here;
      const opacity = Math.min(faded(cloud.name) ? 0.06 : cloud.opacity, 0.995), log = Math.log(1 - opacity) / stands;
      for (let q = 0; q < n.length; q++) {
        if (!n[q]) continue;
        const alpha = 1 - Math.exp(log * n[q]), m = 1 / n[q];
        const under = out[q], ua = (under >>> 24) / 255, whole = alpha + ua * (1 - alpha);
        const mix = (top, shift) => Math.round((top * m * alpha + ((under >>> shift) & 255) * ua * (1 - alpha)) / whole);
        out[q] = (packed(mix(r[q], 0), mix(g[q], 8), mix(b[q], 16)) | (Math.round(255 * whole) << 24)) >>> 0;
      }
    });
    context.putImageData(picture, 0, 0);
    return { drawn, total };
  };
}
