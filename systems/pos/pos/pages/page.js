"use strict";
// Orders that are drawn at most per merchant, worker and state; the numbers beside are always exact.
const MOST = 120, POLL_MS = 250, LEAVE_MS = 900;
const LAWS = {
  well: { median_ms: 300, p99_ms: 300, error_frac: 0, lie_frac: 0, hang_frac: 0, reset_frac: 0 },
  slow: { median_ms: 30000, p99_ms: 30000, error_frac: 0, lie_frac: 0, hang_frac: 0, reset_frac: 0 },
  fails: { median_ms: 300, p99_ms: 300, error_frac: 1, lie_frac: 0, hang_frac: 0, reset_frac: 0 },
};
const STATE = { published: "waiting", began: "running", called: "running", failed: "retrying", done: "done", refused: "dead", dead: "dead", cancelled: "dead", refunded: "dead" };
const find = id => document.getElementById(id);
const rows = new Map();
const still = matchMedia("(prefers-reduced-motion: reduce)");
// Which half of a lane: the stock worker's orders above, those that are diverted below.
const STOCK = 0, DIVERTED = 1, NAMES = ["stock", "greenlane"];
let number = -1, colours = {}, diverted = null;

function recolour() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["waiting", "running", "retrying", "done", "dead", "line", "soft"]) colours[name] = style.getPropertyValue(`--${name}`).trim();
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function rowOf(name, merchant) {
  if (rows.has(name)) return rows.get(name);
  const canvas = element("canvas", { role: "img", "aria-label": `orders on their way to ${name}` });
  const cells = {}, list = element("dl");
  for (const [key, title] of [["waiting", "waiting"], ["running", "running"], ["ended_per_s", "done per s"], ["p95_ms", "p95"]]) {
    cells[key] = element("dd", { "data-figure": key }, "-");
    list.append(element("dt", {}, title), cells[key]);
  }
  const buttons = Object.keys(LAWS).map(law => {
    const button = element("button", { type: "button", "data-law": law, "aria-pressed": "false" }, law);
    button.onclick = () => send(`/merchants/${name}`, LAWS[law]);
    return button;
  });
  const bulkhead = element("div", { class: "bulkhead", hidden: "" });
  const title = element("h2", {}, name, element("small", {}, merchant.over_grpc ? "gRPC" : "HTTP"));
  const article = element("article", { "data-merchant": name }, title, canvas, list, element("div", { class: "law" }, ...buttons), bulkhead);
  find("merchants").append(article);
  const row = { canvas, cells, buttons, bulkhead, article, orders: new Map(), kept: [0, 0], leaving: [] };
  rows.set(name, row);
  return row;
}

function amount(value, digits = 0) { return value === null || value === undefined ? "-" : value.toFixed(digits); }

function time(ms) { return ms === null ? "-" : ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(1)} s`; }

function show(answer) {
  diverted = answer.diversion && answer.diversion.to;
  for (const [name, merchant] of Object.entries(answer.merchants)) {
    const row = rowOf(name, merchant);
    row.figures = merchant;
    row.cells.waiting.textContent = amount(merchant.waiting + merchant.retrying);
    row.cells.running.textContent = amount(merchant.running);
    row.cells.ended_per_s.textContent = amount(merchant.ended_per_s, 1);
    row.cells.p95_ms.textContent = time(merchant.p95_ms);
    for (const button of row.buttons) button.setAttribute("aria-pressed", String(button.dataset.law === lawOf(merchant.law)));
    upstream(row, merchant.upstream);
  }
  for (const [at, event, order, merchant, queue] of answer.events)
    take(rows.get(merchant), STATE[event], order, diverted && queue === diverted ? DIVERTED : STOCK);
  number = answer.number;
  slider("load", answer.per_s, `${answer.per_s}`);
  find("divert").hidden = answer.diversion === null;
  if (answer.diversion) slider("share", Math.round(100 * answer.diversion.share), `${Math.round(100 * answer.diversion.share)} %`);
  find("workers").textContent = answer.workers;
  const all = Object.values(answer.merchants), sum = of => all.reduce((total, merchant) => total + of(merchant), 0);
  const flow = `${sum(one => one.ended_per_s).toFixed(0)} done per s, ${sum(one => one.waiting + one.retrying)} waiting`;
  find("said").textContent = answer.refused ? `${flow}, ${answer.refused} not taken by the broker` : flow;
}

function lawOf(law) {
  return law ? Object.keys(LAWS).find(name => Object.entries(LAWS[name]).every(([key, value]) => law[key] === value)) : undefined;
}

function upstream(row, state) {
  row.bulkhead.hidden = !state;
  if (!state) return;
  row.bulkhead.dataset.breaker = state.breaker;
  const full = element("i", { style: `width:${Math.min(100, (100 * state.running) / Math.max(1, state.limit))}%` });
  const said = `${state.running} at once, at most ${state.limit} · ${state.parked} parked · breaker `;
  row.bulkhead.replaceChildren("greenlane's bulkhead", element("span", { class: "bar" }, full), said, element("b", {}, state.breaker));
}

function slider(id, value, said) {
  const input = find(id);
  if (document.activeElement !== input || !input.matches(":active")) input.value = value;
  find(`${id}-said`).textContent = said;
}

function take(row, state, order, half) {
  if (!row) return;
  const known = row.orders.get(order);
  const now = performance.now();
  if (known && half === DIVERTED && known.half !== half) {
    row.kept[known.half]--;
    row.kept[known.half = half]++;
  }
  if (state === "done" || state === "dead") {
    if (row.orders.delete(order)) row.kept[known.half]--;
    const left = known || { half, y: Math.random() };
    if (row.leaving.length < MOST && !document.hidden) row.leaving.push({ state, at: now, half: left.half, y: left.y });
    return;
  }
  if (known) { if (known.state !== state) { known.state = state; known.at = now; } return; }
  // A worker may be faster than the line of its publisher, which says where it was published.
  if (row.kept[half] < 2 * MOST) {
    row.kept[half]++;
    row.orders.set(order, { state, at: now, half, y: Math.random() });
  }
}

function draw() {
  const now = performance.now();
  for (const row of rows.values()) lane(row, now);
  if (!still.matches) requestAnimationFrame(draw);
}

function lane(row, now) {
  const canvas = row.canvas, width = canvas.clientWidth, height = canvas.clientHeight, scale = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale)) { canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale); }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.fillStyle = colours.line;
  for (const x of [.34, .8]) pen.fillRect(width * x, 2, 1, height - 4);
  const high = one => diverted ? 5 + one.half * height / 2 + one.y * (height / 2 - 10) : 5 + one.y * (height - 10);
  if (diverted) halves(pen, width, height);
  const drawn = [STOCK, DIVERTED].map(() => ({ waiting: 0, running: 0, retrying: 0 }));
  for (const order of row.orders.values()) {
    const place = drawn[order.half][order.state]++;
    if (place >= MOST) continue;
    const near = Math.min(1, (now - order.at) / 250), y = high(order);
    // Who has waited longest stands nearest to the merchant.
    if (order.state === "running") dot(pen, width * (.34 + .06 * near + .38 * Math.min(1, place / MOST)), y, colours.running);
    else dot(pen, width * (.33 - .32 * Math.min(1, place / MOST)) - 2, y, colours[order.state]);
  }
  row.leaving = row.leaving.filter(one => now - one.at < LEAVE_MS);
  for (const one of row.leaving) dot(pen, width * (.8 + .2 * (now - one.at) / LEAVE_MS), high(one), colours[one.state]);
}

function halves(pen, width, height) {
  pen.fillRect(0, height / 2, width, 1);
  pen.fillStyle = colours.soft;
  pen.font = "10px system-ui, sans-serif";
  NAMES.forEach((name, half) => pen.fillText(name, 0, half * height / 2 + height / 4 + 3));
}

function dot(pen, x, y, colour) {
  pen.fillStyle = colour;
  pen.beginPath();
  pen.arc(x, y, 3, 0, 7);
  pen.fill();
}

async function send(path, body) {
  const answer = await fetch(path, { method: "POST", body: JSON.stringify(body) });
  if (!answer.ok) find("said").textContent = (await answer.json()).error;
}

async function poll() {
  try {
    const answer = await fetch(`/live?after=${Math.max(0, number)}`);
    show(await answer.json());
  } catch {
    find("said").textContent = "the backend does not answer";
  }
  if (still.matches) draw();
  setTimeout(poll, POLL_MS);
}

find("load").oninput = event => send("/load", { per_s: Number(event.target.value) });
find("share").oninput = event => send("/diversion", { share: Number(event.target.value) / 100 });
matchMedia("(prefers-color-scheme: dark)").onchange = recolour;
recolour();
poll();
draw();
