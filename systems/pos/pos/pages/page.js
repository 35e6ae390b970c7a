"use strict";
// Orders that are drawn at most per merchant and state; the numbers beside are always exact.
const MOST = 120, POLL_MS = 250, LEAVE_MS = 900;
const LAWS = {
  well: { median_ms: 300, p99_ms: 300, error_frac: 0, lie_frac: 0, hang_frac: 0, reset_frac: 0 },
  slow: { median_ms: 30000, p99_ms: 30000, error_frac: 0, lie_frac: 0, hang_frac: 0, reset_frac: 0 },
  fails: { median_ms: 300, p99_ms: 300, error_frac: 1, lie_frac: 0, hang_frac: 0, reset_frac: 0 },
};
const STATE = { published: "waiting", began: "running", called: "running", failed: "retrying", done: "done", refused: "dead", dead: "dead" };
const find = id => document.getElementById(id);
const rows = new Map();
const still = matchMedia("(prefers-reduced-motion: reduce)");
let number = -1, colours = {};

function recolour() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["waiting", "running", "retrying", "done", "dead", "line"]) colours[name] = style.getPropertyValue(`--${name}`).trim();
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
  const row = { canvas, cells, buttons, bulkhead, article, orders: new Map(), leaving: [] };
  rows.set(name, row);
  return row;
}

function amount(value, digits = 0) { return value === null || value === undefined ? "-" : value.toFixed(digits); }

function time(ms) { return ms === null ? "-" : ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(1)} s`; }

function show(answer) {
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
  for (const [at, event, order, merchant] of answer.events) take(rows.get(merchant), STATE[event], order);
  number = answer.number;
  slider("load", answer.per_s, `${answer.per_s}`);
  find("divert").hidden = answer.diversion === null;
  if (answer.diversion) slider("share", Math.round(100 * answer.diversion.share), `${Math.round(100 * answer.diversion.share)} %`);
  find("workers").textContent = answer.workers;
  find("said").textContent = answer.refused ? `${answer.refused} orders were not taken by the broker` : "";
}

function lawOf(law) {
  return law ? Object.keys(LAWS).find(name => Object.entries(LAWS[name]).every(([key, value]) => law[key] === value)) : undefined;
}

function upstream(row, state) {
  row.bulkhead.hidden = !state;
  if (!state) return;
  row.bulkhead.dataset.breaker = state.breaker;
  const said = [`parked ${state.parked}`, `at most ${state.limit} at once`].join(" · ");
  row.bulkhead.replaceChildren(`${said} · breaker `, element("b", {}, state.breaker));
}

function slider(id, value, said) {
  const input = find(id);
  if (document.activeElement !== input || !input.matches(":active")) input.value = value;
  find(`${id}-said`).textContent = said;
}

function take(row, state, order) {
  if (!row) return;
  const known = row.orders.get(order);
  const now = performance.now();
  if (state === "done" || state === "dead") {
    row.orders.delete(order);
    if (row.leaving.length < MOST && !document.hidden) row.leaving.push({ state, at: now, y: known ? known.y : Math.random() });
    return;
  }
  if (known) { if (known.state !== state) { known.state = state; known.at = now; } return; }
  // A worker may be faster than the line of its publisher.
  if (row.orders.size < 4 * MOST) row.orders.set(order, { state, at: now, y: Math.random() });
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
  const drawn = { waiting: 0, running: 0, retrying: 0 };
  for (const order of row.orders.values()) {
    const place = drawn[order.state]++;
    if (place >= MOST) continue;
    const near = Math.min(1, (now - order.at) / 250), y = 5 + order.y * (height - 10);
    // Who has waited longest stands nearest to the merchant.
    if (order.state === "running") dot(pen, width * (.34 + .06 * near + .38 * Math.min(1, place / MOST)), y, colours.running);
    else dot(pen, width * (.33 - .32 * Math.min(1, place / MOST)) - 2, y, colours[order.state]);
  }
  row.leaving = row.leaving.filter(one => now - one.at < LEAVE_MS);
  for (const one of row.leaving) dot(pen, width * (.8 + .2 * (now - one.at) / LEAVE_MS), 5 + one.y * (height - 10), colours[one.state]);
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
