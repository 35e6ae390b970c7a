"use strict";
const known = JSON.parse(document.body.dataset.known);
const at = id => document.getElementById(id);
const KEPT = 200, EVERY_MS = 500, WINDOW_S = 10;
// Whoever lets the page ask forgets it: it ends by itself.
const ASKS_S = 120, MOST_AT_ONCE = 8;
const PARTS = ["cpu", "io", "wait"];
let kept = [], number = 0, asking = null;

const ms = value => value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
const sum = values => values.reduce((total, value) => total + value, 0);
const mean = values => values.length ? sum(values) / values.length : 0;
const quantile = (values, share) => [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(share * values.length))];
const between = request => Math.max(0, request.wall_ms - sum(Object.values(request.stages).map(stage => stage.wall_ms)));

function made(tag, style, said) {
  const element = document.createElement(tag);
  if (style) element.className = style;
  if (said !== undefined) element.textContent = said;
  return element;
}

function rows(requests) {
  const names = [...new Set(requests.flatMap(request => Object.keys(request.stages)))];
  const found = names.map(name => {
    const of = part => mean(requests.map(request => request.stages[name]?.[part] ?? 0));
    return {name, wall: of("wall_ms"), cpu: of("cpu_ms"), io: of("io_ms"), wait: of("wait_ms"), most: of("wait_most_ms")};
  });
  const rest = mean(requests.map(between));
  return [...found, {name: "between", wall: rest, cpu: 0, io: 0, wait: 0, most: 0, rest}];
}

function drawStages(requests) {
  const found = rows(requests), longest = Math.max(...found.map(row => Math.max(row.wall, row.cpu + row.io + row.wait)), 1e-6);
  at("stages").replaceChildren(...found.map(row => {
    const line = made("div", "row"), bar = made("div", "bar");
    line.dataset.stage = row.name;
    for (const part of row.rest === undefined ? PARTS : ["rest"]) {
      const piece = made("b", part);
      piece.style.width = `${100 * row[part] / longest}%`;
      piece.title = `${part} ${ms(row[part])} ms`;
      bar.append(piece);
    }
    if (row.most > row.wait + 0.05) {
      const mark = made("u");
      mark.style.left = `${Math.min(100, 100 * (row.cpu + row.io + row.most) / longest)}%`;
      mark.title = `wait for the loop: at most ${ms(row.most)} ms`;
      bar.append(mark);
    }
    const parts = row.rest === undefined ? `CPU ${ms(row.cpu)} · I/O ${ms(row.io)} · wait ${ms(row.wait)}` : "loop, sockets, others";
    const words = made("span", "", `${ms(row.wall)} ms `);
    words.append(made("span", "soft", parts));
    line.append(made("span", "", row.name), bar, words);
    return line;
  }));
}

function drawRequests() {
  const highest = Math.max(...kept.map(request => request.wall_ms), 1), width = 1200 / KEPT;
  const bars = kept.map((request, place) => {
    const stages = Object.values(request.stages);
    const parts = PARTS.map(part => [part, sum(stages.map(stage => stage[`${part}_ms`]))]);
    parts.push(["rest", between(request)]);
    // Stages that run beside each other add up to more than the request took.
    const scale = 172 / highest * Math.min(1, request.wall_ms / Math.max(sum(parts.map(part => part[1])), 1e-6));
    const x = 1200 - width * (kept.length - place);
    let y = 180;
    return parts.map(([part, value]) => {
      const height = value * scale;
      y -= height;
      return `<rect class="${part}" x="${x.toFixed(1)}" y="${y.toFixed(2)}" width="${(width - 1).toFixed(1)}" height="${height.toFixed(2)}"/>`;
    }).join("");
  });
  at("requests").innerHTML = bars.join("");
  at("scale").textContent = `highest: ${ms(highest)} ms; deadline ${ms(known.deadlineMs)} ms; the last ${kept.length} requests`;
}

function draw() {
  const recent = kept.filter(request => request.age() < WINDOW_S);
  if (!kept.length) return;
  const walls = kept.map(request => request.wall_ms), degraded = kept.filter(request => request.degraded.length).length;
  at("said").textContent = `variant ${known.variant}; ${(recent.length / WINDOW_S).toFixed(1)} requests per s; ` +
    `p50 ${ms(quantile(walls, 0.5))}, p95 ${ms(quantile(walls, 0.95))} ms; ` +
    `${ms(mean(kept.map(request => request.coroutines)))} coroutines a request` + (degraded ? `; ${degraded} degraded` : "");
  drawStages(kept);
  drawRequests();
}

async function poll() {
  try {
    const found = await (await fetch(`/stages/live?after=${number}`)).json();
    const came = performance.now();
    // A service that was restarted counts from 0.
    if (found.number < number) kept = [];
    number = found.number;
    for (const request of found.requests) request.age = () => request.ago_s + (performance.now() - came) / 1000;
    kept = [...kept, ...found.requests].slice(-KEPT);
    if (found.requests.length) draw();
  } catch {
    at("said").textContent = "the service does not answer";
  }
  setTimeout(poll, EVERY_MS);
}

let flying = 0;
async function ask() {
  if (flying >= MOST_AT_ONCE) return;
  flying += 1;
  try {
    await (await fetch(`/feed?user=${1 + Math.floor(Math.random() * known.users)}&size=48`)).arrayBuffer();
  } catch { /* poll says it */ }
  flying -= 1;
}

function stop() {
  clearInterval(asking?.timer);
  asking?.button.setAttribute("aria-pressed", "false");
  asking = null;
}

at("ask").addEventListener("click", event => {
  const button = event.target.closest("button");
  if (!button) return;
  const same = asking?.button === button;
  stop();
  if (same) return;
  button.setAttribute("aria-pressed", "true");
  const until = performance.now() + 1000 * ASKS_S;
  asking = {button, timer: setInterval(() => performance.now() > until ? stop() : ask(), 1000 / button.dataset.perS)};
  ask();
});
poll();
