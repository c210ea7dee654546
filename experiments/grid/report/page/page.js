// `data` is what experiments/grid/report/render.py packs.
const MOST_ROWS = 5; // lines of a chart
const metricOf = new Map(data.metrics.map((metric) => [metric.key, metric]));
const isDark = matchMedia("(prefers-color-scheme: dark)");
const state = {
  map: 0, metric: data.metrics[0].key, stream: 0, hiddenGroups: new Set(), hiddenColumns: new Set(), sort: null,
  column: 0, compared: [], exampleStream: "", onlyWrong: false,
};
let grid = data.maps[0];
let isPrinted = false;

// -- numbers -----------------------------------------------------------------------------------------------------------

function summarise(values) {
  if (!values.length) return null;
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return { mean, low: Math.min(...values), high: Math.max(...values), count: values.length };
}

const minus = (text) => text.replace("-", "\u2212");

// A score as it stands in a cell: 99.97 % is not 100, and 0.2 % is not 0.
function formatShort(value, metric) {
  if (metric.isShare) {
    const percent = 100 * value;
    if (percent > 99 && percent < 100) return String(Math.min(99.9, Math.floor(percent * 10) / 10));
    if (percent > 0 && percent < 1) return String(Math.max(0.1, Math.round(percent * 10) / 10));
    return String(Math.round(percent));
  }
  if (value !== 0 && Math.abs(value) < 0.01) return minus(value.toExponential(0).replace("e-", "e-").replace("e+", "e"));
  return minus(String(Number(value.toPrecision(2))));
}

function format(value, metric) {
  if (metric.isShare) return `${minus(String(Number((100 * value).toFixed(1))))}\u00a0%`;
  return minus(String(Number(value.toPrecision(3))));
}

function formatFigure(value, digits = 3) {
  if (value === null || value === undefined) return "\u2013";
  return value >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(digits)));
}

function describeRange(summary, metric) {
  const mean = format(summary.mean, metric);
  if (summary.count === 1) return `${mean}, one seed`;
  return `${mean}, the mean of ${summary.count} seeds from ${format(summary.low, metric)} to ${format(summary.high, metric)}`;
}

// From 0, the worst, to 1, the best.
function findShare(value, { worst, best, isLog }) {
  const scale = isLog ? (x) => Math.log10(Math.max(x, Math.min(worst, best))) : (x) => x;
  return Math.max(0, Math.min(1, (scale(value) - scale(worst)) / (scale(best) - scale(worst))));
}

// -- cells -------------------------------------------------------------------------------------------------------------

const cellAt = (row, column) => grid.cells[row][column];
const currentMetric = () => metricOf.get(state.metric);
// This metric is known of all problems together alone.
const currentStream = () => (state.metric === data.equalSeconds ? grid.streams.length - 1 : state.stream);

function scoreOf(row, column, key = state.metric, stream = currentStream()) {
  const cell = cellAt(row, column);
  return cell && !cell.reason ? summarise(cell.values[key][stream]) : null;
}

function ceilingOf(row, column, stream = currentStream()) {
  const cell = cellAt(row, column);
  return cell && cell.ceiling[stream] !== null ? cell.ceiling[stream] : 1;
}

const isWinner = (row, column, key = state.metric, stream = currentStream()) => grid.wins[key][stream][column] === row;

function describeCell(row, column) {
  const names = `${grid.rows[row].name} on ${grid.columns[column]}`;
  const cell = cellAt(row, column), metric = currentMetric();
  if (!cell) return `${names}: not run.`;
  if (cell.reason) return `${names}: has no meaning: ${cell.reason}.`;
  const score = scoreOf(row, column);
  if (!score) return `${names}: no ${metric.label} of these problems.`;
  const lines = [`${names}: ${describeRange(score, metric)}.`];
  if (ceilingOf(row, column) < 1) lines.push(`It can represent ${format(ceilingOf(row, column), { isShare: true })} of the answers.`);
  if (cell.diverged) lines.push(`${cell.diverged} of its runs diverged.`);
  if (isWinner(row, column)) lines.push("Best: each of its seeds beats each seed of all other rows.");
  return lines.join("\n");
}

const listColumns = () => grid.columns.map((_, i) => i).filter((i) => !state.hiddenColumns.has(grid.columns[i]));

// The mean of the shown columns; null unless the row has them all.
function averageRow(row) {
  const scores = listColumns().map((column) => scoreOf(row, column));
  return scores.length && scores.every(Boolean) ? summarise(scores.map((score) => score.mean)).mean : null;
}

function listRows() {
  const rows = grid.rows.map((_, i) => i).filter((i) => !state.hiddenGroups.has(grid.rows[i].group));
  if (!state.sort) return rows;
  const { key, isWorstFirst } = state.sort;
  if (key === "name") return rows.sort((a, b) => (isWorstFirst ? -1 : 1) * grid.rows[a].name.localeCompare(grid.rows[b].name));
  const column = grid.columns.indexOf(key), metric = currentMetric();
  const sign = (metric.best > metric.worst ? -1 : 1) * (isWorstFirst ? -1 : 1);
  const value = (row) => (key === "mean" ? averageRow(row) : scoreOf(row, column)?.mean ?? null);
  const values = new Map(rows.map((row) => [row, value(row)]));
  // Rows without a score come last, whichever way the others are sorted.
  return rows.sort((a, b) => {
    const [x, y] = [values.get(a), values.get(b)];
    if (x === null || y === null) return (x === null) - (y === null);
    return sign * (x - y);
  });
}

// -- the map -----------------------------------------------------------------------------------------------------------

function colourOf(share) {
  const at = (isDark.matches && !isPrinted ? 1 - share : share) * (data.colours.length - 1);
  const i = Math.min(data.colours.length - 2, Math.floor(at));
  return data.colours[i].map((low, channel) => Math.round(low + (at - i) * (data.colours[i + 1][channel] - low)));
}

function luminance(rgb) {
  const [r, g, b] = rgb.map((part) => (part <= 10 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function paint(element, share) {
  const rgb = colourOf(share), isPale = luminance(rgb) > 0.18;
  element.style.setProperty("--colour", `rgb(${rgb.join(" ")})`);
  element.style.setProperty("--text", isPale ? "#000000" : "#ffffff");
  element.classList.add("filled");
  element.classList.toggle("is-dark", !isPale);
}

function makeCell(row, column) {
  const cell = cellAt(row, column), score = scoreOf(row, column), metric = currentMetric();
  const td = make("td", { "data-row": row, "data-column": column, "aria-label": describeCell(row, column), tabindex: -1 });
  if (!cell) td.classList.add("missing");
  else if (cell.reason) {
    td.classList.add("senseless");
    td.append(make("span", { class: "figure", text: "n/a" }));
  } else if (!score) td.append(make("span", { class: "figure", text: "\u2013" }));
  else {
    paint(td, findShare(score.mean, metric));
    const barred = 1 - ceilingOf(row, column);
    if (barred > 0) td.append(make("span", { class: "hatch" }));
    td.style.setProperty("--barred", `${100 * barred}%`);
    td.append(make("span", { class: "figure", text: formatShort(score.mean, metric) }));
    if (isWinner(row, column)) td.classList.add("best");
  }
  return td;
}

function makeSorter(key, label, isTurned) {
  const isSorted = state.sort?.key === key;
  const { best, worst } = currentMetric();
  const isAscending = state.sort?.isWorstFirst !== (key === "name" || best < worst);
  const order = !isSorted ? "none" : isAscending ? "ascending" : "descending";
  // A name that is turned turns its arrow too.
  const arrow = isSorted ? (state.sort.isWorstFirst === isTurned ? " \u25bc" : " \u25b2") : "";
  const button = make("button", { type: "button", text: label + arrow, "data-sort": key, onclick: () => sortBy(key) });
  const example = grid.problems[grid.columns.indexOf(key)]?.[0];
  if (example) button.title = `Such as: ${example[1]} ${example[2]}`;
  return make("th", { scope: "col", "aria-sort": order, class: isTurned ? "turned" : "" }, button);
}

function sortBy(key) {
  if (state.sort?.key !== key) state.sort = { key, isWorstFirst: false };
  else state.sort = state.sort.isWorstFirst ? null : { key, isWorstFirst: true };
  drawMap();
  document.querySelector(`#map [data-sort="${CSS.escape(key)}"]`).focus();
  const order = key === "name" ? ["from A to Z", "from Z to A"] : ["best first", "worst first"];
  announce(state.sort ? `Sorted by ${key}, ${order[Number(state.sort.isWorstFirst)]}.` : "In groups, not sorted.");
  save();
}

function makeRow(row, columns) {
  const { name, group, parts } = grid.rows[row];
  const isCompared = state.compared.includes(row);
  const button = make("button", { type: "button", text: name, "aria-pressed": isCompared, title: [parts, `Compare ${name} below`].filter(Boolean).join("\n"), onclick: () => toggleCompared(row) });
  const head = make("th", { scope: "row" }, button);
  if (state.sort) head.append(make("small", { class: "note", text: group }));
  const tr = make("tr", {}, head, ...columns.map((column) => makeCell(row, column)));
  const average = averageRow(row);
  const mean = make("td", { class: average === null ? "missing mean" : "mean" });
  mean.setAttribute("aria-label", average === null ? `${name}: no mean, as it does not have all columns` : `${name}: mean ${format(average, currentMetric())}`);
  if (average !== null) {
    paint(mean, findShare(average, currentMetric()));
    mean.append(make("span", { class: "figure", text: formatShort(average, currentMetric()) }));
  }
  tr.append(mean);
  return tr;
}

function drawMap() {
  const table = byId("map"), columns = listColumns(), rows = listRows();
  const head = make("tr", {}, makeSorter("name", "row", false), ...columns.map((column) => makeSorter(grid.columns[column], grid.columns[column], true)), makeSorter("mean", "mean", true));
  const body = make("tbody");
  let group = null;
  for (const row of rows) {
    if (!state.sort && grid.rows[row].group !== group) {
      group = grid.rows[row].group;
      body.append(make("tr", { class: "group" }, make("th", { scope: "rowgroup", colspan: columns.length + 2, text: group })));
    }
    body.append(makeRow(row, columns));
  }
  table.replaceChildren(make("thead", {}, head), body);
  const first = table.querySelector("td[data-row]");
  if (first) first.tabIndex = 0;
  const metric = currentMetric();
  byId("about").textContent = `${metric.label[0].toUpperCase()}${metric.label.slice(1)}: ${metric.meaning}${metric.isShare ? ", in percent" : ""}; ${metric.best > metric.worst ? "more" : "less"} is better.`;
  drawKey(metric);
}

function drawKey(metric) {
  const ramp = make("span", { class: "ramp" }, formatShort(metric.worst, metric));
  for (let i = 0; i <= 10; i++) {
    const box = make("i");
    paint(box, i / 10);
    ramp.append(box);
  }
  ramp.append(`${formatShort(metric.best, metric)}${metric.isShare ? " %" : ""}`);
  const sign = (name, text, label) => make("span", {}, make("i", { class: `sign ${name}`, text }), label);
  byId("key").replaceChildren(
    ramp, sign("hatched", "", "share of the answers that the row cannot represent"), sign("missing", "", "not run"),
    sign("", "n/a", "has no meaning"), sign("", "\u2605", `best: each seed beats each seed of all others, and there are ${data.leastSeeds} or more`),
  );
}

// -- tip, status, keys -------------------------------------------------------------------------------------------------

const announce = (text) => { byId("status").textContent = text; };

function showTip(td) {
  const tip = byId("tip"), box = td.getBoundingClientRect();
  tip.textContent = td.getAttribute("aria-label");
  tip.hidden = false;
  const left = Math.min(box.left, document.documentElement.clientWidth - tip.offsetWidth - 8);
  const above = box.top - tip.offsetHeight - 6;
  tip.style.left = `${Math.max(4, left) + scrollX}px`;
  tip.style.top = `${(above > 0 ? above : box.bottom + 6) + scrollY}px`;
}
const hideTip = () => { byId("tip").hidden = true; };

function moveFocus(td, event) {
  const rows = [...byId("map").querySelectorAll("tbody tr:not(.group)")].map((tr) => [...tr.querySelectorAll("td[data-row]")]);
  const y = rows.findIndex((cells) => cells.includes(td)), x = rows[y].indexOf(td);
  const targets = {
    ArrowRight: [y, x + 1], ArrowLeft: [y, x - 1], ArrowDown: [y + 1, x], ArrowUp: [y - 1, x],
    Home: [event.ctrlKey ? 0 : y, 0], End: [event.ctrlKey ? rows.length - 1 : y, rows[y].length - 1],
  };
  if (!(event.key in targets)) return false;
  const [toY, toX] = targets[event.key];
  const target = rows[toY]?.[toX];
  if (target) {
    td.tabIndex = -1;
    target.tabIndex = 0;
    target.focus();
  }
  return true;
}

function listenToMap() {
  const map = byId("map"), find = (event) => event.target.closest?.("td[data-row], td.mean");
  map.addEventListener("pointerover", (event) => (find(event) ? showTip(find(event)) : hideTip()));
  map.addEventListener("pointerleave", hideTip);
  map.addEventListener("focusin", (event) => (find(event) ? showTip(find(event)) : hideTip()));
  map.addEventListener("focusout", hideTip);
  map.addEventListener("click", (event) => event.target.closest("td[data-row]") && chooseCell(event.target.closest("td[data-row]")));
  map.addEventListener("keydown", (event) => {
    const td = event.target.closest("td[data-row]");
    if (event.key === "Escape") hideTip();
    if (!td) return;
    if (event.key === "Enter" || event.key === " ") chooseCell(td);
    else if (!moveFocus(td, event)) return;
    event.preventDefault();
  });
}

function chooseCell(td) {
  const row = Number(td.dataset.row), column = Number(td.dataset.column);
  if (!cellAt(row, column)) {
    announce(describeCell(row, column));
    return;
  }
  state.column = column;
  if (!state.compared.includes(row)) state.compared = [...state.compared.slice(0, MOST_ROWS - 1), row];
  hideTip();
  drawDetails();
  drawMap();
  save();
  announce(`Shown below: ${grid.rows[row].name} on ${grid.columns[column]}.`);
  const title = byId("cell-title");
  title.tabIndex = -1;
  title.focus({ preventScroll: true });
  title.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
}

function toggleCompared(row) {
  if (state.compared.includes(row)) state.compared = state.compared.filter((other) => other !== row);
  else if (state.compared.length === MOST_ROWS) {
    announce(`${MOST_ROWS} rows are compared already: take one out first.`);
    return;
  } else state.compared.push(row);
  const { name } = grid.rows[row];
  announce(state.compared.includes(row) ? `${name} is compared below.` : `${name} is no longer compared.`);
  for (const button of document.querySelectorAll("#map tbody th button")) {
    if (button.textContent === name) button.setAttribute("aria-pressed", state.compared.includes(row));
  }
  drawDetails();
  save();
}

// -- charts ------------------------------------------------------------------------------------------------------------

const listTicks = (metric) => [0, 0.25, 0.5, 0.75, 1].map((at) => {
  const { worst, best, isLog } = metric;
  const value = isLog ? 10 ** (Math.log10(worst) + at * (Math.log10(best) - Math.log10(worst))) : worst + at * (best - worst);
  return { at, text: isLog ? formatShort(value, metric) : minus(String(Number((metric.isShare ? 100 * value : value).toPrecision(2)))) };
});

function drawLengths() {
  const metric = state.metric === data.equalSeconds ? data.metrics[0] : currentMetric();
  // Not every column has every length.
  const hasScores = (stream) => grid.rows.some((_, row) => scoreOf(row, state.column, metric.key, stream));
  const streams = [...grid.same, ...grid.streams.map((_, i) => i).filter((i) => grid.streams[i].length !== null)].filter(hasScores);
  const lines = state.compared.map((row, series) => {
    const scores = streams.map((stream, x) => ({ x, score: scoreOf(row, state.column, metric.key, stream) })).filter(({ score }) => score);
    const points = scores.map(({ x, score }) => ({ x, y: findShare(score.mean, metric), low: findShare(score.low, metric), high: findShare(score.high, metric) }));
    return { name: grid.rows[row].name, series, points, summary: scores.map(({ x, score }) => `${grid.streams[streams[x]].label} ${format(score.mean, metric)}`).join(", ") };
  });
  const names = streams.map((stream, at) => ({ at, text: grid.streams[stream].length === null ? "training" : String(grid.streams[stream].length) }));
  drawChart(byId("lengths"), {
    lines, xs: names, xLabel: "digits of the numbers in the problem", ys: listTicks(metric),
    yLabel: `${metric.label}${metric.isShare ? " (%)" : ""}`, toShareX: (x) => (streams.length > 1 ? x / (streams.length - 1) : 0.5),
  });
}

// The mean curve of seeds, at the steps that they all have.
function averageCurves(curves) {
  const seeds = curves.filter((curve) => curve.length);
  if (!seeds.length) return [];
  return seeds[0].map(([step]) => seeds.map((curve) => curve.find((point) => point[0] === step))).filter((points) => points.every(Boolean)).map((points) => {
    const scores = summarise(points.map((point) => point[2]));
    return { x: summarise(points.map((point) => point[1])).mean, y: scores.mean, low: scores.low, high: scores.high };
  });
}

function drawSeconds() {
  const metric = data.metrics[0];
  const lines = state.compared.map((row, series) => {
    const points = grid.clock && !grid.rows[row].isTimed ? [] : averageCurves(cellAt(row, state.column)?.curves ?? []);
    return { name: grid.rows[row].name, series, points, summary: points.map((p) => `${formatFigure(p.x)} s ${format(p.y, metric)}`).join(", ") };
  });
  const most = Math.max(1, ...lines.flatMap((line) => line.points.map((p) => p.x)));
  const step = [1, 2, 5].flatMap((x) => [-1, 0, 1, 2, 3, 4, 5].map((power) => x * 10 ** power)).sort((a, b) => a - b).find((x) => most / x <= 5) ?? most;
  const xs = Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => ({ at: i * step, text: (i * step).toLocaleString("en") }));
  const limit = grid.seconds[state.column];
  drawChart(byId("seconds"), {
    lines, xs, xLabel: "seconds of training", ys: listTicks(metric), yLabel: "exact answers on validation (%)",
    toShareX: (x) => x / most,
    mark: limit !== null && limit < most ? { at: limit, text: "the fastest row ends" } : null,
  });
  byId("clock").textContent = describeClock();
}

// Whose seconds these are.
function describeClock() {
  const rows = state.compared.map((row) => grid.rows[row]).filter((row) => !row.isBaseline);
  if (grid.clock) {
    const others = rows.filter((row) => !row.isTimed).map((row) => row.name);
    return `Seconds of ${grid.clock}, where a step of each row took turns with one of digits.${others.length ? ` Not timed there: ${others.join(", ")}.` : ""}`;
  }
  if (new Set(rows.flatMap((row) => row.machines)).size < 2) return "";
  return `These seconds cannot be compared, since they are of several machines: ${rows.map((row) => `${row.name} of ${row.machines.join(" and ")}`).join("; ")}.`;
}

// -- details -----------------------------------------------------------------------------------------------------------

function drawDetails() {
  byId("column").value = String(state.column);
  byId("cell-title").textContent = `One kind of problem: ${grid.columns[state.column]}`;
  byId("compared").replaceChildren(...state.compared.map((row, series) => make("button", {
    type: "button", class: `s${series} series`, text: `${grid.rows[row].name} \u00d7`, "aria-label": `Take out ${grid.rows[row].name}`, onclick: () => toggleCompared(row),
  })));
  byId("add").replaceChildren(make("option", { value: "", text: "choose \u2026" }), ...grid.rows.map((row, i) => [row, i]).filter(([, i]) => !state.compared.includes(i)).map(([row, i]) => make("option", { value: i, text: row.name })));
  byId("add").disabled = state.compared.length === MOST_ROWS;
  drawLengths();
  drawSeconds();
  drawFacts();
  drawExamples();
}

function makeHead(names) {
  return make("thead", {}, make("tr", {}, ...names.map((name) => make("th", { scope: "col", text: name }))));
}

function drawFacts() {
  const metric = state.metric === data.equalSeconds ? data.metrics[0] : currentMetric();
  const body = make("tbody", {}, ...state.compared.map((row) => {
    const { name, slots, parameters, msPerStep, seconds, rates } = grid.rows[row];
    const scores = grid.streams.map((_, stream) => {
      const score = scoreOf(row, state.column, metric.key, stream);
      if (!score) return make("td", { text: "\u2013" });
      const td = make("td", { text: format(score.mean, metric) });
      const ends = [score.low, score.high].map((value) => format(value, metric).replace("\u00a0%", ""));
      if (score.count > 1) td.append(make("small", { class: "note", text: ends.join(" \u2013 ") }));
      if (isWinner(row, state.column, metric.key, stream)) td.prepend("\u2605 ");
      return td;
    });
    const costs = [slots, parameters, msPerStep, seconds].map((value) => make("td", { text: formatFigure(value) }));
    return make("tr", {}, make("th", { scope: "row", text: name }), ...scores, ...costs, make("td", { text: rates.join(", ") || "\u2013" }));
  }));
  const names = ["row", ...grid.streams.map((stream) => stream.label), "slots a number", "parameters", "ms a step", "seconds", "learning rate"];
  byId("facts").replaceChildren(makeHead(names), body);
  byId("facts-title").textContent = `In figures: ${metric.label}, with the seeds' range`;
}

function drawExamples() {
  const columns = state.compared.filter((row) => cellAt(row, state.column)?.examples.length);
  const written = columns.map((row) => new Map(cellAt(row, state.column).examples.map(([problem, text, isRight]) => [problem, { text, isRight }])));
  const rows = grid.problems[state.column].map((problem, i) => ({ problem, answers: written.map((texts) => texts.get(i)) }))
    .filter(({ problem }) => !state.exampleStream || problem[0] === state.exampleStream)
    .filter(({ answers }) => answers.some(Boolean) && (!state.onlyWrong || answers.some((answer) => answer && !answer.isRight)));
  const label = (key) => grid.streams.find((stream) => stream.key === key)?.label ?? key;
  const body = make("tbody", {}, ...rows.map(({ problem: [stream, prompt, gold], answers }) => make("tr", {},
    make("td", { "data-name": "problem" }, prompt, make("small", { text: label(stream) })), make("td", { text: gold, "data-name": "right answer" }),
    ...answers.map((answer, i) => make("td", { "data-name": grid.rows[columns[i]].name }, make("span", {
      text: answer ? answer.text || "(nothing)" : "\u2013", class: answer ? (answer.isRight ? "right" : "wrong") : "",
    }))))));
  byId("examples").replaceChildren(makeHead(["problem", "right answer", ...columns.map((row) => grid.rows[row].name)]), body);
  if (!rows.length) body.append(make("tr", {}, make("td", { colspan: columns.length + 2, text: "No examples of this choice are stored." })));
}

function drawCeilings() {
  const stream = Number(byId("ceiling-stream").value);
  const body = make("tbody", {}, ...grid.rows.map((row, i) => make("tr", {}, make("th", { scope: "row", text: row.name }), make("td", { class: "name parts", text: row.parts || row.group }),
    make("td", { text: formatFigure(row.slots) }), ...grid.columns.map((_, column) => {
      const cell = cellAt(i, column), share = cell?.ceiling[stream];
      if (share === null || share === undefined) return make("td", { text: cell?.reason ? "n/a" : "\u2013" });
      return make("td", { text: formatShort(share, { isShare: true }), class: share < 1 ? "less" : "" });
    }))));
  byId("ceilings").replaceChildren(makeHead(["row", "parts", "slots a number", ...grid.columns]), body);
}

function drawOrigin() {
  const total = grid.rows.length * grid.columns.length;
  const cells = grid.cells.flatMap((row, i) => row.map((cell, j) => ({ cell, name: `${grid.rows[i].name} on ${grid.columns[j]}` })));
  const missing = cells.filter(({ cell }) => !cell).length;
  const reasons = new Map();
  for (const { cell, name } of cells) if (cell?.reason) reasons.set(cell.reason, [...(reasons.get(cell.reason) ?? []), name]);
  const list = (title, lines) => (lines.length ? [make("h3", { text: title }), make("ul", {}, ...lines.map((text) => make("li", { text })))] : []);
  byId("origin").replaceChildren(
    ...list("Runs", [grid.label, ...Object.keys(grid.machines).map((name) => `Trained on ${name}.`), ...Object.entries(grid.commits).map(([name, count]) => `Code: ${name} (${count} runs).`)]),
    ...list("Cells that have no meaning", [...reasons].map(([reason, names]) => `${reason}: ${names.join(", ")}.`)),
    ...list("Cells that are left out", grid.leftOut),
    ...list("Files that are left out", data.faults),
  );
  byId("summary").textContent = `${grid.rows.length} rows \u00d7 ${grid.columns.length} columns, ${total - missing} of ${total} cells. ${grid.label}.`;
}

// -- choices -----------------------------------------------------------------------------------------------------------

const fill = (id, options) => byId(id).replaceChildren(...options.map(([value, text]) => make("option", { value, text })));

function makeToggles(id, names, hidden) {
  byId(id).replaceChildren(...names.map((name) => {
    const button = make("button", { type: "button", text: name, "aria-pressed": !hidden.has(name) });
    button.addEventListener("click", () => {
      if (!hidden.delete(name)) hidden.add(name);
      button.setAttribute("aria-pressed", !hidden.has(name));
      drawMap();
      announce(`${name} is ${hidden.has(name) ? "hidden" : "shown"}: ${listRows().length} rows, ${listColumns().length} columns.`);
      save();
    });
    return button;
  }));
}

// The rows with the highest means, one a group first, so that the charts compare unlike rows.
function chooseRows() {
  const rows = grid.rows.map((_, i) => i).filter((i) => !grid.rows[i].isBaseline && scoreOf(i, state.column));
  rows.sort((a, b) => scoreOf(b, state.column, data.metrics[0].key)?.mean - scoreOf(a, state.column, data.metrics[0].key)?.mean);
  const firsts = rows.filter((row, i) => rows.findIndex((other) => grid.rows[other].group === grid.rows[row].group) === i);
  return [...new Set([...firsts, ...rows])].slice(0, MOST_ROWS);
}

function openMap(index) {
  state.map = index;
  grid = data.maps[index];
  state.stream = grid.main;
  state.column = Math.min(state.column, grid.columns.length - 1);
  fill("stream", grid.streams.map((stream, i) => [i, stream.label]));
  byId("stream").value = String(state.stream);
  fill("ceiling-stream", grid.streams.map((stream, i) => [i, stream.label]));
  byId("ceiling-stream").value = String(grid.streams.length - 1);
  fill("column", grid.columns.map((name, i) => [i, name]));
  fill("example-stream", [["", "all"], ...grid.streams.filter(({ key }) => key !== data.all).map((stream) => [stream.key, stream.label])]);
  makeToggles("groups", [...new Set(grid.rows.map((row) => row.group))], state.hiddenGroups);
  makeToggles("columns", grid.columns, state.hiddenColumns);
  state.exampleStream = "";
  state.compared = chooseRows();
}

function redraw() {
  byId("map-choice").value = String(state.map);
  byId("metric").value = state.metric;
  byId("stream").value = String(currentStream());
  byId("stream").disabled = state.metric === data.equalSeconds;
  drawMap();
  drawDetails();
  drawCeilings();
  drawOrigin();
}

function save() {
  const words = new URLSearchParams({ map: grid.label, metric: state.metric, stream: grid.streams[state.stream].key, column: grid.columns[state.column] });
  words.set("rows", state.compared.map((row) => grid.rows[row].name).join(","));
  if (state.hiddenGroups.size) words.set("without", [...state.hiddenGroups].join(","));
  if (state.hiddenColumns.size) words.set("hidden", [...state.hiddenColumns].join(","));
  if (state.sort) words.set("sort", `${state.sort.isWorstFirst ? "-" : ""}${state.sort.key}`);
  history.replaceState(null, "", `#${words}`);
}

// What an address names is restored; what it names that is not there is left as it is.
function restore() {
  const words = new URLSearchParams(location.hash.slice(1));
  const split = (key) => (words.get(key) ?? "").split(",").filter(Boolean);
  state.hiddenGroups = new Set(split("without"));
  state.hiddenColumns = new Set(split("hidden"));
  const index = data.maps.findIndex((map) => map.label === words.get("map"));
  openMap(Math.max(0, index));
  if (metricOf.has(words.get("metric"))) state.metric = words.get("metric");
  const stream = grid.streams.findIndex(({ key }) => key === words.get("stream"));
  if (stream >= 0) state.stream = stream;
  const column = grid.columns.indexOf(words.get("column"));
  if (column >= 0) state.column = column;
  const rows = split("rows").map((name) => grid.rows.findIndex((row) => row.name === name)).filter((row) => row >= 0);
  state.compared = rows.length ? [...new Set(rows)].slice(0, MOST_ROWS) : chooseRows();
  const sort = words.get("sort") ?? "", key = sort.replace(/^-/, "");
  state.sort = ["name", "mean", ...grid.columns].includes(key) ? { key, isWorstFirst: sort.startsWith("-") } : null;
}

function listen() {
  const on = (id, change) => byId(id).addEventListener("change", (event) => {
    change(event.target);
    redraw();
    save();
  });
  on("map-choice", ({ value }) => openMap(Number(value)));
  on("metric", ({ value }) => { state.metric = value; });
  on("stream", ({ value }) => { state.stream = Number(value); });
  on("column", ({ value }) => { state.column = Number(value); });
  on("add", ({ value }) => { if (value) state.compared.push(Number(value)); });
  on("example-stream", ({ value }) => { state.exampleStream = value; });
  on("ceiling-stream", () => {});
  on("only-wrong", ({ checked }) => { state.onlyWrong = checked; });
  for (const form of document.forms) form.addEventListener("submit", (event) => event.preventDefault());
  isDark.addEventListener("change", redraw);
  addEventListener("beforeprint", () => { isPrinted = true; redraw(); });
  addEventListener("afterprint", () => { isPrinted = false; redraw(); });
  // A link within the page names no state.
  addEventListener("hashchange", () => { if (location.hash.includes("=")) { restore(); redraw(); } });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) drawDetails();
    width = innerWidth;
  });
  listenToMap();
}

fill("map-choice", data.maps.map((map, i) => [i, map.label]));
byId("map-choice").disabled = data.maps.length === 1;
fill("metric", data.metrics.map((metric) => [metric.key, metric.label]));
restore();
listen();
redraw();
