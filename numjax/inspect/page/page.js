// `data` is what numjax/inspect/render.py packs.
const ROW = 32; // components of a vector in one row of its strip
const ARRAYS = { "<u1": Uint8Array, "<i1": Int8Array, "<i2": Int16Array, "<u2": Uint16Array, "<f4": Float32Array, "<f8": Float64Array };

// -- arrays and numbers ------------------------------------------------------------------------------------------------

function decode(text, type) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const swapped = new DataView(bytes.buffer);
  const size = ARRAYS[type].BYTES_PER_ELEMENT;
  const getters = { "<i2": "getInt16", "<u2": "getUint16", "<f4": "getFloat32", "<f8": "getFloat64" };
  if (size === 1) return new ARRAYS[type](bytes.buffer);
  return ARRAYS[type].from({ length: bytes.length / size }, (_, i) => swapped[getters[type]](i * size, true));
}

function fromHalf(bits) {
  const sign = bits >> 15 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
}

function unpackView(view) {
  const isHalf = view.precision === "float16";
  const stored = decode(view.vectors, isHalf ? "<u2" : "<i1");
  return {
    ...view,
    has: decode(view.has, "<u1"),
    nearest: decode(view.nearest, "<i2"),
    distances: decode(view.distances, "<f4"),
    points: decode(view.points, "<f4"),
    scales: decode(view.scales, "<f8"),
    units: Float32Array.from(stored, isHalf ? fromHalf : (level) => level / 127),
    maps: view.maps.map((map) => ({ ...map, levels: decode(map.levels, "<u1") })),
  };
}

const views = data.parts.flatMap((part) => part.views.map((view) => ({ part, ...unpackView(view) })));
const count = data.high + 1;
const indexOf = new Map(data.texts.map((text, i) => [text, i]));

// The digits, sign and power of a number in digits, so that 1,200 and 1.2e3 have the same key; null for other text.
function keyOf(text) {
  const match = /^([-\u2212+]?)[$€£¥₹₩₽¢]?(\d{1,3}(?:,\d{3})+|\d*)(?:\.(\d+))?(?:[eE]([-\u2212+]?\d{1,6}))?(%?)$/.exec(text);
  if (!match || !(match[2] || match[3])) return null;
  const [, sign, whole, fraction = "", power = "0", percent] = match;
  const digits = whole.replaceAll(",", "") + fraction;
  const significant = digits.replace(/^0+|0+$/g, "");
  if (!significant) return "0";
  const trailing = digits.length - digits.replace(/0+$/, "").length;
  const exponent = Number(power.replace("\u2212", "-")) - fraction.length + trailing - (percent ? 2 : 0);
  return `${sign === "-" || sign === "\u2212" ? "-" : ""}${significant}e${exponent}`;
}

const keys = data.values.map(keyOf);
const floats = data.values.map(Number);

function format(x, digits = 4) {
  if (x === 0) return "0";
  const size = Math.abs(x);
  const text = size >= 1e6 || size < 1e-4 ? x.toExponential(digits - 1) : String(Number(x.toPrecision(digits)));
  return text.replace("-", "\u2212").replace("e\u2212", "e-").replace("e+", "e");
}
// A cosine near 1 as its distance from 1, which would be rounded away.
const formatCosine = (distance) => (distance > 0 && distance < 1e-3 ? `1 \u2212 ${format(distance, 2)}` : (1 - distance).toFixed(4).replace("-", "\u2212"));
const formatShare = (p) => (p > 0 && p < 0.0005 ? "under 0.1 %" : `${format(100 * p, 3)} %`);

// -- elements ----------------------------------------------------------------------------------------------------------

const makePick = (i) => make("button", { type: "button", class: "pick", text: data.texts[i], onclick: () => show(data.texts[i]) });

// A canvas that can be explored with a pointer and with arrow keys; `describe` says what is at an index.
function explore(canvas, { size, columns = size, locate, describe, choose }) {
  const output = make("output");
  let cursor = -1;
  const point = (i) => {
    cursor = Math.max(0, Math.min(size - 1, i));
    output.textContent = describe(cursor);
  };
  canvas.tabIndex = 0;
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const i = locate((event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
    if (i >= 0 && i < size) point(i);
  });
  canvas.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns === size ? -1 : columns, ArrowUp: columns === size ? 1 : -columns };
    if (event.key in steps) point(cursor < 0 ? 0 : cursor + steps[event.key]);
    else if (event.key === "Home") point(0);
    else if (event.key === "End") point(size - 1);
    else if (event.key === "Enter" && choose && cursor >= 0) choose(cursor);
    else return;
    event.preventDefault();
  });
  if (choose) canvas.addEventListener("click", () => cursor >= 0 && choose(cursor));
  output.setAttribute("aria-live", "polite");
  return output;
}

const isDark = matchMedia("(prefers-color-scheme: dark)");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
// Colours of a ramp from low to high, dark on light paper and light on dark paper.
const RAMPS = {
  light: [[247, 250, 253], [140, 190, 225], [33, 113, 181], [8, 40, 90]],
  dark: [[24, 28, 36], [22, 78, 128], [70, 155, 215], [226, 241, 255]],
};
function rampColour(share) {
  const stops = RAMPS[isDark.matches ? "dark" : "light"];
  const at = Math.max(0, Math.min(1, share)) * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(at));
  return stops[i].map((low, channel) => Math.round(low + (at - i) * (stops[i + 1][channel] - low)));
}

function paintCells(canvas, width, height, colourOf) {
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  for (let i = 0; i < width * height; i++) image.data.set(colourOf(i), 4 * i);
  context.putImageData(image, 0, 0);
}

// -- charts ------------------------------------------------------------------------------------------------------------

const EDGE = { left: 44, right: 12, top: 10, bottom: 24 };

// A canvas with axes in CSS pixels. Returns its context, and functions that turn values into pixels.
function makeAxes(canvas, height, { low, high, bottom, top, isLog = false }) {
  const width = canvas.clientWidth || 320, ratio = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.font = "12px system-ui, sans-serif";
  const scale = isLog ? Math.log10 : (x) => x;
  const toX = (x) => EDGE.left + ((scale(x) - scale(low)) / (scale(high) - scale(low))) * (width - EDGE.left - EDGE.right);
  const toY = (y) => height - EDGE.bottom - ((y - bottom) / (top - bottom || 1)) * (height - EDGE.top - EDGE.bottom);
  return { context, width, height, toX, toY };
}

function drawTicks({ context, width, height, toX, toY }, xs, ys) {
  context.strokeStyle = colour("--line");
  context.fillStyle = colour("--soft");
  context.lineWidth = 1;
  context.textAlign = "right";
  for (const y of ys) {
    context.beginPath();
    context.moveTo(EDGE.left, toY(y));
    context.lineTo(width - EDGE.right, toY(y));
    context.stroke();
    context.fillText(String(Number(y.toFixed(2))).replace("-", "\u2212"), EDGE.left - 6, toY(y) + 4);
  }
  context.textAlign = "center";
  for (const x of xs) {
    const text = x.toLocaleString("en"), half = context.measureText(text).width / 2 + 3;
    context.fillText(text, Math.min(toX(x), width - half), height - 7);
  }
}

// Text that stays readable over lines and points.
function drawLabel(context, text, x, y) {
  context.lineWidth = 3;
  context.strokeStyle = colour("--paper");
  context.strokeText(text, x, y);
  context.fillText(text, x, y);
}

function drawLine({ context, toX, toY }, xs, ys) {
  context.strokeStyle = colour("--accent");
  context.lineWidth = 1.6;
  context.beginPath();
  let isOpen = false;
  for (let i = 0; i < xs.length; i++) {
    if (Number.isNaN(ys[i])) {
      isOpen = false;
      continue;
    }
    context[isOpen ? "lineTo" : "moveTo"](toX(xs[i]), toY(ys[i]));
    isOpen = true;
  }
  context.stroke();
}

function drawMark({ context, width, toX, toY }, x, y, text) {
  context.strokeStyle = context.fillStyle = colour("--mark");
  context.setLineDash([4, 3]);
  context.lineWidth = 1.4;
  context.beginPath();
  context.moveTo(toX(x), EDGE.top);
  context.lineTo(toX(x), context.canvas.clientHeight - EDGE.bottom);
  context.stroke();
  context.setLineDash([]);
  context.beginPath();
  context.arc(toX(x), toY(y), 4, 0, 7);
  context.fill();
  context.textAlign = toX(x) > width * 0.75 ? "right" : "left";
  context.font = "bold 12px system-ui, sans-serif";
  drawLabel(context, text, toX(x) + (context.textAlign === "left" ? 8 : -8), Math.max(toY(y) - 8, EDGE.top + 12));
}

// -- one number in one embedding ---------------------------------------------------------------------------------------

const component = (view, i, d) => view.units[i * view.dim + d] * view.scales[i];

function cosinesTo(view, i) {
  const { dim, units } = view;
  const norm = (j) => {
    let sum = 0;
    for (let d = 0; d < dim; d++) sum += units[j * dim + d] ** 2;
    return Math.sqrt(sum);
  };
  const own = norm(i);
  return Float64Array.from({ length: count }, (_, j) => {
    if (!view.has[j]) return NaN;
    if (j === i) return 1;
    let dot = 0;
    for (let d = 0; d < dim; d++) dot += units[i * dim + d] * units[j * dim + d];
    return dot / (own * norm(j) || 1);
  });
}

function drawStrip(view, i) {
  const columns = Math.min(ROW, view.dim), rows = Math.ceil(view.dim / columns);
  const values = Array.from({ length: view.dim }, (_, d) => component(view, i, d));
  const largest = Math.max(...values.map(Math.abs)) || 1;
  const low = format(Math.min(...values), 3), high = format(Math.max(...values), 3);
  const canvas = make("canvas", {
    class: "cells", role: "img",
    "aria-label": `${view.dim} components from ${low} to ${high}. Arrow keys read them one by one.`,
  });
  canvas.style.aspectRatio = `${columns} / ${Math.max(rows, 1)}`;
  if (rows === 1) canvas.style.maxHeight = "2.5rem";
  const [warm, cool] = isDark.matches ? [[255, 163, 92], [124, 192, 244]] : [[179, 74, 0], [0, 91, 148]];
  const paint = (d) => {
    if (d >= view.dim) return [0, 0, 0, 0];
    return [...(values[d] < 0 ? warm : cool), Math.round(255 * Math.abs(values[d]) / largest)];
  };
  paintCells(canvas, columns, rows, paint);
  const describe = (d) => `component ${d + 1}: ${format(values[d])}`;
  const locate = (x, y) => Math.floor(y * rows) * columns + Math.floor(x * columns);
  const output = explore(canvas, { size: view.dim, columns: rows > 1 ? columns : view.dim, locate, describe });
  output.textContent = `from ${low} to ${high}; blue is above 0, orange below`;
  const list = make("details", {}, make("summary", { text: `All ${view.dim} components as text` }));
  list.addEventListener("toggle", () => {
    if (list.open && list.children.length === 1) list.append(make("p", { text: values.map((x) => format(x)).join("  ") }));
  });
  return [make("h4", { text: "Components" }), canvas, output, list];
}

function listNearest(view, i) {
  const list = make("ol", { class: "bars" });
  const own = view.distances.subarray(i * view.k, (i + 1) * view.k), largest = Math.max(...own) || 1;
  for (let rank = 0; rank < view.k; rank++) {
    const j = view.nearest[i * view.k + rank], distance = own[rank];
    if (j < 0) continue;
    const bar = make("span");
    bar.style.width = `${Math.max(0, distance / largest) * 100}%`;
    list.append(make("li", {}, makePick(j), make("span", { class: "bar", "aria-hidden": "true" }, bar),
      make("span", { class: "figure", text: formatCosine(distance) })));
  }
  return [make("h4", { text: "Nearest numbers, by cosine" }), list, make("p", { class: "note", text: "A shorter bar is a smaller distance, 1 \u2212 cosine." })];
}

function drawCurve(view, i) {
  const canvas = make("canvas", { role: "img" });
  const ys = cosinesTo(view, i), xs = Array.from(ys, (_, j) => j);
  const known = ys.filter((y) => !Number.isNaN(y));
  const bottom = known.reduce((least, y) => Math.min(least, y), 1);
  canvas.setAttribute("aria-label", `Cosine of ${data.texts[i]} with each number of 0 to ${data.high}: from ${format(bottom, 3)} to ${format(known.reduce((most, y) => Math.max(most, y), -1), 3)}. Arrow keys read it number by number, Enter shows a number.`);
  const draw = () => {
    const axes = makeAxes(canvas, 170, { low: 0, high: data.high, bottom, top: Math.max(1, bottom + 1e-9) });
    drawTicks(axes, [0, Math.round(data.high / 2), data.high], bottom < 0 ? [bottom, 0, 1] : [bottom, (1 + bottom) / 2, 1]);
    drawLine(axes, xs, ys);
    if (i < count) drawMark(axes, i, 1, data.texts[i]);
  };
  const locate = (x) => Math.round(((x * canvas.clientWidth - EDGE.left) / (canvas.clientWidth - EDGE.left - EDGE.right)) * data.high);
  const describe = (j) => (Number.isNaN(ys[j]) ? `${j}: no vector` : `with ${j}: ${format(ys[j], 4)}`);
  const output = explore(canvas, { size: count, locate, describe, choose: (j) => show(String(j)) });
  output.textContent = `drawn from the stored vectors: within ${format(Math.max(view.error, 1e-7), 1)}`;
  return { nodes: [make("h4", { text: `Cosine with 0 … ${data.high}` }), canvas, output], draw };
}

function drawPlane(view, i) {
  const canvas = make("canvas", { role: "img", "aria-label": `The numbers 0 to ${data.high} on the two principal components, which hold ${view.share.map(formatShare).join(" and ")} of the variance. ${data.texts[i]} is marked.` });
  const at = (j) => [view.points[2 * j], view.points[2 * j + 1]];
  const shown = Array.from({ length: count }, (_, j) => j).filter((j) => view.has[j]);
  const ends = [0, 1].map((axis) => {
    const values = shown.map((j) => at(j)[axis]);
    const low = Math.min(...values), high = Math.max(...values), room = (high - low || 1) * 0.08;
    return [low - room, high + room];
  });
  const isInside = ends.every(([low, high], axis) => at(i)[axis] >= low && at(i)[axis] <= high);
  let pixels = [];
  const draw = () => {
    const axes = makeAxes(canvas, 240, { low: ends[0][0], high: ends[0][1], bottom: ends[1][0], top: ends[1][1] });
    const { context } = axes;
    const toX = (x) => 8 + ((x - ends[0][0]) / (ends[0][1] - ends[0][0])) * (axes.width - 16);
    const toY = (y) => 232 - ((y - ends[1][0]) / (ends[1][1] - ends[1][0])) * 224;
    pixels = shown.map((j) => [toX(at(j)[0]), toY(at(j)[1])]);
    shown.forEach((j, n) => {
      context.fillStyle = `rgb(${rampColour(0.25 + (0.75 * j) / data.high).join()})`;
      context.beginPath();
      context.arc(...pixels[n], 2.2, 0, 7);
      context.fill();
    });
    context.fillStyle = colour("--ink");
    context.textAlign = "center";
    for (const j of [0, 9, 99, Math.floor(data.high / 2), data.high]) {
      const n = shown.indexOf(j);
      if (n >= 0 && j !== i) drawLabel(context, String(j), Math.max(14, Math.min(axes.width - 14, pixels[n][0])), Math.max(12, pixels[n][1] - 6));
    }
    if (!view.has[i]) return;
    const x = Math.max(6, Math.min(axes.width - 6, toX(at(i)[0]))), y = Math.max(6, Math.min(234, toY(at(i)[1])));
    context.strokeStyle = context.fillStyle = colour("--mark");
    context.lineWidth = 2;
    context.beginPath();
    context.arc(x, y, 6, 0, 7);
    context.stroke();
    context.font = "bold 13px system-ui, sans-serif";
    context.textAlign = x > axes.width * 0.7 ? "right" : "left";
    drawLabel(context, data.texts[i], x + (context.textAlign === "left" ? 10 : -10), y + (y < 20 ? 14 : 4));
  };
  const locate = (x, y) => {
    const [px, py] = [x * canvas.clientWidth, y * canvas.clientHeight];
    let best = -1, least = 200;
    pixels.forEach(([qx, qy], n) => {
      const distance = (px - qx) ** 2 + (py - qy) ** 2;
      if (distance < least) [best, least] = [n, distance];
    });
    return best;
  };
  const output = explore(canvas, { size: shown.length, locate, describe: (n) => String(shown[n]), choose: (n) => show(String(shown[n])) });
  const side = isDark.matches ? "darker" : "paler", hold = view.share.map(formatShare).join(" and ");
  const outside = isInside ? "" : `; ${data.texts[i]} lies outside, at the edge in its direction`;
  output.textContent = `${side} points are smaller numbers; the axes hold ${hold} of the variance${outside}`;
  return { nodes: [make("h4", { text: "On two principal components" }), canvas, output], draw };
}

function drawMap(view) {
  const canvas = make("canvas", { class: "cells", role: "img" }), bar = make("canvas", { "aria-hidden": "true" });
  const low = make("span"), high = make("span");
  const id = `map-${views.indexOf(view)}`;
  const select = make("select", { id });
  const name = ({ step, size }) => (step === 1 ? `0 … ${size - 1}, each` : `0 … ${data.high}, means of ${step} × ${step}`);
  view.maps.forEach((map, m) => select.append(make("option", { value: m, text: name(map) })));
  let map = view.maps[0];
  const cellName = (cell) => (map.step === 1 ? String(cell) : `${cell * map.step} … ${Math.min(data.high, (cell + 1) * map.step - 1)}`);
  const cosine = (n) => map.low + (map.levels[n] / 254) * (map.high - map.low);
  const describe = (n) => {
    const [row, column] = [Math.floor(n / map.size), n % map.size];
    return `${cellName(row)} with ${cellName(column)}: ${map.levels[n] === 255 ? "no vectors" : format(cosine(n), 3)}`;
  };
  const draw = () => {
    map = view.maps[Number(select.value)];
    paintCells(canvas, map.size, map.size, (n) => (map.levels[n] === 255 ? [128, 128, 128, 60] : [...rampColour(map.levels[n] / 254), 255]));
    paintCells(bar, 100, 1, (n) => [...rampColour(n / 99), 255]);
    [low.textContent, high.textContent] = [format(map.low, 3), format(map.high, 3)];
    canvas.setAttribute("aria-label", `Cosines of the numbers ${name(map)}: from ${format(map.low, 3)} to ${format(map.high, 3)}. Arrow keys read them.`);
    output.textContent = "top left is 0";
  };
  const locate = (x, y) => Math.floor(y * map.size) * map.size + Math.floor(x * map.size);
  const output = explore(canvas, { size: view.maps[0].size ** 2, columns: view.maps[0].size, locate, describe });
  select.addEventListener("change", draw);
  const label = make("div", { class: "label" }, make("h4", { text: "Similarity of the range" }), make("label", { for: id, text: "Range " }, select));
  return { nodes: [label, canvas, output, make("div", { class: "ramp" }, low, bar, high)], draw };
}

// -- answers -----------------------------------------------------------------------------------------------------------

function listWritten(written, i) {
  const row = written.rows[i], text = data.texts[i];
  const nodes = [make("p", {}, "Prompt: ", make("strong", { text: written.prompt.replaceAll("{}", text) })),
    make("p", { class: "note", text: `The task lays the prompt out like this: ${written.example}` })];
  if (!row) return [...nodes, make("p", { class: "notice", text: "Not computed for this number: the prompt does not fit the model, or the model is large and only some numbers were asked." })];
  const list = make("ol", { class: "bars" });
  // Of unlikely texts only the right one.
  const isShown = ([answer, p], rank) => rank === 0 || p >= 0.0005 || keyOf(answer) === keys[i];
  for (const [answer, p, low, high, share] of row.filter(isShown)) {
    const bar = make("span");
    bar.style.width = `${Math.min(1, p) * 100}%`;
    list.append(make("li", {}, make("strong", { text: answer || "(nothing)" }), make("span", { class: "bar", "aria-hidden": "true" }, bar), make("span", { class: "figure", text: formatShare(p) })));
    if (low !== undefined) list.append(make("li", { class: "interval" }, make("span", { text: `approximate: between ${low} and ${high} with probability ${formatShare(share)}` })));
  }
  return [...nodes, make("h4", { text: "It writes" }), list, make("p", { class: "note", text: `Probabilities are of ${written.meaning}.` })];
}

const judgedOf = new Map(data.parts.filter((part) => part.judged).map((part) => {
  const { judged } = part, probabilities = decode(judged.probabilities, "<f4");
  const points = new Map(Array.from(decode(judged.sweepProbabilities, "<f4"), (p, n) => [judged.sweep[n], p]));
  probabilities.forEach((p, j) => floats[j] > 0 && !points.has(floats[j]) && points.set(floats[j], p));
  const curve = [...points].filter(([x, p]) => x >= 1 && x <= judged.sweep.at(-1) && !Number.isNaN(p)).sort(([x], [y]) => x - y);
  return [part, { probabilities, xs: curve.map(([x]) => x), ys: curve.map(([, p]) => p) }];
}));

function drawJudged(part, i) {
  const { probabilities, xs, ys } = judgedOf.get(part), p = probabilities[i], text = data.texts[i];
  const canvas = make("canvas", { role: "img", "aria-label": `Probability that each number from 1 to ${xs.at(-1)} is right. Arrow keys read it.` });
  const draw = () => {
    const axes = makeAxes(canvas, 200, { low: 1, high: xs.at(-1), bottom: 0, top: 1, isLog: true });
    drawTicks(axes, [1, 10, 100, 1000, 10000, 100000].filter((x) => x <= xs.at(-1)), [0, 0.5, 1]);
    drawLine(axes, xs, ys);
    if (floats[i] >= 1 && floats[i] <= xs.at(-1) && !Number.isNaN(p)) drawMark(axes, floats[i], p, text);
  };
  const locate = (x) => {
    const share = (x * canvas.clientWidth - EDGE.left) / (canvas.clientWidth - EDGE.left - EDGE.right);
    const value = xs.at(-1) ** Math.max(0, Math.min(1, share));
    return Math.max(0, xs.findIndex((other) => other >= value));
  };
  const output = explore(canvas, { size: xs.length, locate, describe: (n) => `${xs[n].toLocaleString("en")}: ${formatShare(ys[n])}` });
  const verdict = Number.isNaN(p) ? `${text} is not one number for this run's scheme.` : `${text}: right with probability ${formatShare(p)}`;
  const question = make("p", {}, part.judged.question.includes("{}") ? "Sentence: " : "Question: ", make("strong", { text: part.judged.question.replaceAll("{}", text) }));
  return { nodes: [question, make("p", { class: "verdict", text: verdict }), make("h4", { text: "Probability that an answer is right" }), canvas, output], draw };
}

// -- the page for one number -------------------------------------------------------------------------------------------

function fillSymbols(i) {
  byId("symbols").tBodies[0].replaceChildren(...data.layouts.map((layout, n) => {
    const row = layout.rows[i], isNew = layout.description !== data.layouts[n - 1]?.description;
    const cell = make("td");
    if (row === undefined || row === null) cell.append(make("span", { class: "note", text: row === null ? "cannot write it" : layout.description }));
    const names = row ? row.split(" ").map((n) => layout.symbols[n]) : [];
    for (const name of names) cell.append(make("span", { class: /^\[.+\]$|^[A-Z]+ . /.test(name) ? "symbol mark" : "symbol", text: name }));
    if (row && layout.slot && names.includes("[NUM]")) cell.append(make("span", { class: "note", text: ` [NUM] carries ${data.values[i]}` }));
    const head = make("th", { scope: "row", text: layout.name }, row !== undefined && isNew ? make("small", { text: layout.description }) : "");
    return make("tr", {}, head, cell, make("td", { class: "count", text: row ? names.length : "–" }));
  }));
}

function fillValue(i) {
  byId("value").textContent = data.values[i];
  const agree = data.readings[i].every((reading) => reading === 1);
  byId("agreement").textContent = agree ? `All rules read it as this number: ${data.rules.join(", ")}.` : "The numeral rules read it in different ways:";
  byId("readings").hidden = agree;
  byId("readings").tBodies[0].replaceChildren(...data.rules.map((rules, r) => {
    const spans = data.readings[i][r] === 1 ? [[data.texts[i], data.values[i]]] : data.readings[i][r];
    const cell = make("td");
    if (!spans.length) cell.append(make("span", { class: "note", text: "none" }));
    for (const [text, value] of spans) cell.append(make("span", { class: "symbol", text }), text === value ? " " : `= ${value} `);
    return make("tr", {}, make("th", { scope: "row", text: rules }), cell);
  }));
}

function fillViews(i) {
  const drawings = [];
  byId("views").replaceChildren(...views.map((view) => {
    const panel = make("article", { class: "panel" });
    panel.append(make("h3", { text: view.part.name }));
    panel.append(make("p", { class: "of", text: `${view.name ? `${view.name}, ` : ""}${view.dim} dimensions` }));
    const facts = make("dl");
    for (const [name, value] of view.part.facts) facts.append(make("dt", { text: name }), make("dd", { text: value }));
    if (view.part.facts.length) panel.append(make("details", {}, make("summary", { text: view.name ? "About the run" : "Options" }), facts));
    const map = drawMap(view);
    if (!view.has[i]) {
      panel.append(make("p", { class: "notice", text: `${data.texts[i]} has no vector here.` }), ...map.nodes);
      drawings.push(map.draw);
      return panel;
    }
    const curve = drawCurve(view, i), plane = drawPlane(view, i);
    panel.append(...drawStrip(view, i), ...listNearest(view, i), ...curve.nodes, ...plane.nodes, ...map.nodes);
    drawings.push(curve.draw, plane.draw, map.draw);
    return panel;
  }));
  return drawings;
}

function fillAnswers(i) {
  const drawings = [], panels = [];
  for (const part of data.parts) {
    if (!part.written && !part.judged && !part.silence) continue;
    const panel = make("article", { class: "panel" }, make("h3", { text: part.name }));
    if (part.written) panel.append(...listWritten(part.written, i));
    if (part.judged) {
      const judged = drawJudged(part, i);
      panel.append(...judged.nodes);
      drawings.push(judged.draw);
    }
    if (part.silence) panel.append(make("p", { class: "note", text: part.silence }));
    panels.push(panel);
  }
  byId("answers").replaceChildren(...panels);
  byId("answers-section").hidden = !panels.length;
  return drawings;
}

let drawings = [];
let current = -1;
const draw = () => drawings.forEach((drawOne) => drawOne());

function refuse(text) {
  const key = keyOf(text), status = byId("status");
  byId("results").hidden = true;
  current = -1;
  if (key === null) {
    status.textContent = text ? `\u201c${text}\u201d is not one number in digits. Type one such as 42, -5, 3.14 or 1,200.` : "Type a number.";
    return;
  }
  const value = Number(text.replace(/[,$€£¥₹₩₽¢%]/g, "").replaceAll("\u2212", "-")) / (text.endsWith("%") ? 100 : 1);
  const equal = keys.flatMap((other, i) => (other === key ? [i] : []));
  const order = keys.map((_, i) => i).sort((a, b) => Math.abs(floats[a] - value) - Math.abs(floats[b] - value) || a - b);
  const near = equal.length ? equal : order.slice(0, 4);
  const reason = equal.length ? "was not computed ahead as it is written. Of the same value: " : "was not computed ahead. The nearest numbers that were: ";
  status.replaceChildren(`${text} ${reason}`, ...near.flatMap((i) => [makePick(i), " "]));
}

function show(text) {
  text = text.trim();
  if (byId("number").value.trim() !== text) byId("number").value = text;
  history.replaceState(null, "", `#n=${encodeURIComponent(text)}`);
  for (const pick of byId("picks").children) pick.setAttribute("aria-pressed", String(pick.textContent === text));
  if (!indexOf.has(text)) return refuse(text);
  current = indexOf.get(text);
  byId("results").hidden = false;
  fillSymbols(current);
  fillValue(current);
  drawings = [...fillViews(current), ...fillAnswers(current)];
  draw();
  byId("status").textContent = `Showing ${text}.`;
  return undefined;
}

function step(by) {
  const value = Number(byId("number").value);
  if (Number.isInteger(value) && value >= 0 && value <= data.high) show(String(Math.max(0, Math.min(data.high, value + by))));
  else if (current >= 0) show(data.texts[Math.max(0, Math.min(data.texts.length - 1, current + by))]);
}

function start() {
  byId("shown").textContent = `${data.parts.map((part) => part.name).join(" · ")}. ${data.texts.length.toLocaleString("en")} numbers were computed ahead: 0 … ${data.high} and ${data.texts.length - count} others.`;
  byId("vocabulary").textContent = `Sub-words are those of ${data.vocabulary}. \u2423 is a blank.`;
  byId("precision").textContent = `Vectors are stored in ${views[0].precision}, maps in 255 steps; nearest numbers, means and components were computed in float64 before.`;
  byId("picks").append(...[7, 42, 99, 100].filter((n) => n < count).map((n) => makePick(n)), ...data.texts.slice(count).map((_, n) => makePick(count + n)));
  // Typing waits for a pause, so that the beginning of a number is not announced.
  let pause;
  byId("choose").addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(pause);
    show(byId("number").value);
  });
  byId("number").addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(() => show(byId("number").value), 250);
  });
  byId("previous").addEventListener("click", () => step(-1));
  byId("next").addEventListener("click", () => step(1));
  const asked = () => new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B")).get("n") || (count > 42 ? "42" : "7");
  addEventListener("hashchange", () => show(asked()));
  addEventListener("resize", () => current >= 0 && draw());
  isDark.addEventListener("change", () => current >= 0 && show(data.texts[current]));
  show(asked());
}

start();
