// Charts of lines, with the name of each line at its end.
const LABEL = 110; // pixels of the longest name of a line
const EDGE = { left: 46, right: 118, top: 20, bottom: 44 };
const draw = (name, attributes = {}, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") element.textContent = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
};

// Moves labels down until none covers one above it, and those up again that the bottom then pushes.
function spread(labels, gap, bottom) {
  labels.sort((a, b) => a.y - b.y);
  labels.forEach((label, i) => {
    for (const other of labels.slice(0, i)) {
      if (Math.abs(label.x - other.x) < LABEL && label.y < other.y + gap) label.y = other.y + gap;
    }
  });
  for (let i = labels.length - 1; i >= 0; i--) {
    const below = labels.slice(i + 1).filter((other) => Math.abs(labels[i].x - other.x) < LABEL).map((other) => other.y - gap);
    labels[i].y = Math.min(labels[i].y, bottom, ...below);
  }
  return labels;
}

// A chart of lines: { name, series, points: [{ x, y, low, high }] }. The y of a point is from 0 to 1.
function drawChart(container, { lines, xs, xLabel, ys, yLabel, toShareX, mark }) {
  const width = Math.max(300, container.clientWidth || 480), height = 300;
  const toX = (x) => EDGE.left + toShareX(x) * (width - EDGE.left - EDGE.right);
  const toY = (share) => height - EDGE.bottom - share * (height - EDGE.top - EDGE.bottom);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  svg.setAttribute("aria-label", `${yLabel} against ${xLabel}. ${lines.map((line) => `${line.name}: ${line.summary}`).join("; ")}`);
  for (const { at, text } of ys) {
    svg.append(draw("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: toY(at), y2: toY(at) }));
    svg.append(draw("text", { x: EDGE.left - 6, y: toY(at) + 4, "text-anchor": "end", text }));
  }
  for (const { at, text } of xs) svg.append(draw("text", { x: toX(at), y: height - EDGE.bottom + 18, "text-anchor": "middle", text }));
  svg.append(draw("text", { x: EDGE.left, y: height - 6, text: xLabel }));
  if (mark) {
    svg.append(draw("line", { class: "mark", x1: toX(mark.at), x2: toX(mark.at), y1: EDGE.top, y2: height - EDGE.bottom }));
    svg.append(draw("text", { x: toX(mark.at), y: EDGE.top - 8, "text-anchor": "middle", text: mark.text }));
  }
  const labels = [];
  for (const { name, series, points } of lines) {
    const group = draw("g", { class: `s${series}` });
    const path = (edge) => points.map((p) => `${toX(p.x).toFixed(1)},${toY(p[edge]).toFixed(1)}`);
    if (points.length > 1) {
      group.append(draw("polygon", { class: "band", points: [...path("high"), ...path("low").reverse()].join(" ") }));
      group.append(draw("polyline", { class: "line", points: path("y").join(" ") }));
    }
    for (const p of points) group.append(draw("circle", { class: "dot", cx: toX(p.x), cy: toY(p.y), r: 3.2 }));
    svg.append(group);
    const last = points.at(-1);
    if (last) labels.push({ name, series, y: toY(last.y) + 4, x: toX(last.x) + 8 });
  }
  for (const { name, series, x, y } of spread(labels, 14, height - EDGE.bottom + 4)) {
    svg.append(draw("g", { class: `s${series}` }, draw("text", { class: "name", x, y, text: name.length > 17 ? `${name.slice(0, 16)}\u2026` : name })));
  }
  container.replaceChildren(lines.some((line) => line.points.length) ? svg : make("p", { class: "note", text: "Nothing to show: choose rows that have this column." }));
}

