"use strict";
const POLL_MS = 2000, LOOK_MS = 1000, KEPT_POLLS = 30;
const SIDES = { changing: "left", fixed: "right" };
const FIX_NAMES = { none: "stock gevent", permits: "permits", lane: "a lane", dedicated: "a second gunicorn" };
const PERCENTILES = { p50: "p50", p95: "p95", p99: "p99", p999: "p99.9" };
const MODES = {
  bikes: ["Bike", '<circle cx="5.5" cy="15" r="4"/><circle cx="18.5" cy="15" r="4"/><path d="M5.5 15 9 8h7l2.5 7M9 8l4 7h-7M14 5h3l-1 3"/>'],
  scooters: ["Scooter", '<circle cx="5" cy="18" r="2.4"/><circle cx="19" cy="18" r="2.4"/><path d="M7.4 18h9.2L14.5 5H11"/>'],
  rideshare: ["Car", '<path d="M3 16v-4l2-5h14l2 5v4zM5 12h14"/><circle cx="7" cy="16.5" r="1.8"/><circle cx="17" cy="16.5" r="1.8"/>'],
  shared: ["Shared", '<circle cx="8" cy="8" r="3"/><circle cx="16" cy="8" r="3"/><path d="M2.5 19c.5-4 3-6 5.500-6s5 2 5.500 6M14 13.400c4-1.400 7 1 7.500 5.600"/>'],
  transit: ["Transit", '<rect x="5" y="3.500" width="14" height="14" rx="3"/><path d="M5 11h14M8 20.500l1.500-3M16 20.500l-1.500-3M8.500 14.300h.1M15.400 14.300h.1"/>'],
  walk: ["Walk", '<circle cx="13" cy="4.500" r="1.800"/><path d="M9 21l3-6-1-6 4 3h3M11 9l-3 2v3M12 15l4 6"/>'],
};
const PRICED = ["bikes", "scooters"];
const find = id => document.getElementById(id);
const rows = {}, phones = {};
let facts = null, region = null, number = 0, marks = [], now_s = 0, looking = false;

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function drawing(attributes, inside) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.innerHTML = inside;
  return made;
}

// ---- the phones

function phone(side) {
  const list = element("ul", { class: "modes" }), items = {};
  for (const [mode, [name, glyph]] of Object.entries(MODES)) {
    const price = element("b"), eta = element("small"), way = drawing({ class: "way", viewBox: "0 0 46 26", "aria-hidden": "true" }, "<polyline/>");
    const item = element("li", { class: `mode gone${PRICED.includes(mode) ? " priced" : ""}`, "data-mode": mode, "aria-hidden": "true" },
      drawing({ class: "glyph", viewBox: "0 0 24 24", "aria-hidden": "true" }, glyph), element("div", {}, element("strong", {}, name), eta), way, price);
    items[mode] = { item, price, eta, line: way.firstChild };
    list.append(item);
  }
  const map = drawing({ class: "map", viewBox: "0 0 272 118", role: "img", "aria-label": "the way", preserveAspectRatio: "xMidYMid slice" },
    '<path class="road" d="M-5 30 90 22 150 52 280 40M60-5 74 125M190-5 176 60 204 125M-5 92 120 80 280 100"/><polyline class="way"/><circle r="5"/><circle r="5"/>');
  const bar = element("div", { class: "bar" }, "asking …"), contender = element("small");
  const polls = element("div", { class: "polls", role: "img" }), strips = {};
  for (const mode of PRICED) {
    const row = element("span", { class: "row" }), share = element("span");
    polls.append(element("div", {}, element("span", {}, MODES[mode][0]), row, share));
    strips[mode] = { row, share, seen: [] };
  }
  const screen = element("div", { class: "screen" }, map, element("div", { class: "trip" }, element("b", {}, "Home"), element("span", { class: "soft" }, "to"), element("b", {}, "Old harbour")), list, bar);
  const article = element("article", { class: "side", "data-side": side }, element("h2", {}, SIDES[side], contender), element("div", { class: "device" }, screen), polls);
  document.querySelector(".pair").append(article);
  return { items, map, bar, contender, polls, strips, asked: 0, shown: 0 };
}

function way(route, width, height, edge) {
  if (!route || route.length < 2) return [];
  // Drawn from left to right; what is north lies higher, smoothed as streets are.
  const north = route.map((point, at) => (route[Math.max(0, at - 1)][0] + 2 * point[0] + route[Math.min(route.length - 1, at + 1)][0]) / 4);
  const low = Math.min(...north), span = Math.max(1, Math.max(...north) - low);
  return north.map((value, at) => [edge + (width - 2 * edge) * at / (route.length - 1), height - edge - (height - 2 * edge) * (value - low) / span]);
}

function show(side, offers, missing) {
  const its = phones[side], there = Object.fromEntries(offers.map(one => [one.mode, one]));
  for (const [mode, { item, price, eta, line }] of Object.entries(its.items)) {
    const offer = there[mode];
    item.classList.toggle("gone", !offer);
    item.setAttribute("aria-hidden", String(!offer));
    if (!offer) continue;
    price.textContent = mode === "walk" ? "free" : `$${(offer.price_cents / 100).toFixed(2)}`;
    eta.textContent = offer.eta_s ? `${Math.max(1, Math.round(offer.eta_s / 60))} min` : "now";
    line.setAttribute("points", way(offer.route, 46, 26, 4).map(point => point.map(value => value.toFixed(1)).join(",")).join(" "));
  }
  const driven = there.rideshare || there.walk;
  if (driven && driven.route && driven.route.length > 1 && !its.drawn) drawWay(its, driven.route);
  const why = missing.map(one => `no ${(MODES[one.mode] || [one.mode])[0].toLowerCase()}: ${one.why}`).join(", ");
  its.bar.textContent = !missing.length ? `${offers.length} ways to go` : offers.length ? why : "nothing in time";
  its.bar.classList.toggle("missing", Boolean(why));
  for (const mode of PRICED) strip(its, mode, mode in there);
  its.polls.setAttribute("aria-label", PRICED.map(mode => `${MODES[mode][0]} offered in ${its.strips[mode].share.textContent} polls`).join(", "));
}

function drawWay(its, route) {
  const points = way(route, 272, 118, 22), circles = its.map.querySelectorAll("circle");
  its.map.querySelector(".way").setAttribute("points", points.map(point => point.map(value => value.toFixed(1)).join(",")).join(" "));
  [points[0], points[points.length - 1]].forEach(([x, y], at) => { circles[at].setAttribute("cx", x); circles[at].setAttribute("cy", y); });
  its.drawn = true;
}

function strip(its, mode, made) {
  const { row, share, seen } = its.strips[mode];
  seen.push(made);
  if (seen.length > KEPT_POLLS) seen.shift();
  const blank = Array(KEPT_POLLS - seen.length).fill(null);
  row.replaceChildren(...[...blank, ...seen].map(one => element("i", one === null ? {} : { class: one ? "made" : "missing" })));
  share.textContent = `${seen.filter(Boolean).length}/${seen.length}`;
}

async function ask(side) {
  const its = phones[side], mine = ++its.asked, where = region;
  // One id: the same rider on both services, with the same prices and the same upstreams each time.
  const answer = await asked(`offers?side=${side}&region=${where}&id=phone-${where}`);
  // A later poll may have been answered before.
  if (mine <= its.shown || where !== region) return;
  if (!answer || !answer.offers) { its.bar.textContent = "no answer"; return; }
  its.shown = mine;
  show(side, answer.offers, answer.missing);
}

function askBoth() { if (region) Object.keys(SIDES).forEach(ask); }

// ---- what all riders see

function spelt(name, value, bound = false) {
  if (value === null || value === undefined) return "–";
  if (name === "success") return `${(100 * value).toFixed(value === 1 ? 0 : 1)} %`;
  if (name === "nines") return `${bound ? "≥ " : ""}${value.toFixed(1)}`;
  if (name === "ms") return value < 1000 ? `${value.toFixed(0)} ms` : `${(value / 1000).toFixed(1)} s`;
  return value.toFixed(value < 10 && value !== 0 ? 1 : 0);
}

function plot(id, { lines, low, high, ticks, log = false, cap = null, its_marks, said }) {
  const box = find(id).querySelector(".plot"), width = Math.max(200, box.clientWidth), height = box.clientHeight;
  const left = 42, right = width - 6, top = 16, bottom = height - 20, from = now_s - facts.kept_s;
  const across = t => left + (right - left) * (t - from) / facts.kept_s;
  const place = value => log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  const up = value => bottom - (bottom - top) * Math.min(1, Math.max(0, place(value)));
  const parts = ticks.map(([value, text]) => `<line class="grid" x1="${left}" x2="${right}" y1="${up(value)}" y2="${up(value)}"/><text x="${left - 6}" y="${up(value) + 4}" text-anchor="end">${text}</text>`);
  for (let ago = 0; ago <= facts.kept_s; ago += 60) parts.push(`<text x="${across(now_s - ago)}" y="${height - 4}" text-anchor="${ago ? "middle" : "end"}">${ago ? `−${ago / 60} min` : "now"}</text>`);
  if (cap !== null) parts.push(`<line class="cap" x1="${left}" x2="${right}" y1="${up(cap[0])}" y2="${up(cap[0])}"/><text class="cap" x="${left + 4}" y="${up(cap[0]) - 4}">${cap[1]}</text>`);
  for (const { points, kind, area } of lines) {
    const there = points.filter(([t, value]) => value !== null && value !== undefined && t >= from);
    if (!there.length) continue;
    const path = there.map(([t, value]) => `${across(t).toFixed(1)},${up(value).toFixed(1)}`).join(" ");
    if (area) parts.push(`<polygon class="area ${kind}" points="${across(there[0][0]).toFixed(1)},${bottom} ${path} ${across(there[there.length - 1][0]).toFixed(1)},${bottom}"/>`);
    parts.push(`<polyline class="line ${kind}" points="${path}"/>`);
  }
  for (const mark of its_marks) {
    const x = across(mark.at_s);
    if (x > left) parts.push(`<line class="mark" x1="${x}" x2="${x}" y1="${top}" y2="${bottom}"/><text class="mark" x="${x}" y="11" text-anchor="${x > right - 50 ? "end" : "middle"}">${mark.fix}</text>`);
  }
  box.replaceChildren(drawing({ viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said }, parts.join("")));
}

function legend(id, entries) {
  find(id).querySelector(".legend").replaceChildren(...entries.map(([kind, text, value]) =>
    element("li", {}, drawing({ class: `swatch ${kind.split(" ")[0]}`, viewBox: "0 0 22 8", "aria-hidden": "true" }, `<line class="${kind}" x1="1" x2="21" y1="4" y2="4"/>`), `${text} `, element("b", {}, value))));
}

function of(side, where, field) { return (rows[`${side}/${where}`] || []).map(row => [row.t, row[field]]); }

function last(side, where) { const its = rows[`${side}/${where}`] || []; return its[its.length - 1] || {}; }

function nines(side, where) { return spelt("nines", last(side, where).nines, last(side, where).nines_is_bound); }

function draw() {
  const sides = Object.keys(SIDES), here = marks.filter(mark => mark.region === region);
  const success = sides.map(side => ({ points: of(side, region, "success_frac"), kind: side }));
  const least = Math.min(.98, ...success.flatMap(line => line.points.map(point => point[1] ?? 1)));
  const low = Math.max(0, Math.floor(20 * least) / 20);
  const said = (name, field) => sides.map(side => `${SIDES[side]} ${spelt(name, last(side, region)[field])}`).join(", ");
  plot("success", { lines: success, low, high: 1, ticks: [low, (1 + low) / 2, 1].map(value => [value, `${(100 * value).toFixed((1 - low) * 50 % 1 ? 1 : 0)} %`]), its_marks: here, said: `offers in time: ${said("success", "success_frac")}` });
  legend("success", sides.map(side => [side, SIDES[side], spelt("success", last(side, region).success_frac)]));
  const late = sides.map(side => ({ points: of(side, region, "timeouts_per_s"), kind: side, area: true }));
  const most = Math.max(4, Math.ceil(Math.max(0, ...late.flatMap(line => line.points.map(point => point[1] ?? 0)))));
  plot("timeouts", { lines: late, low: 0, high: most, ticks: [[0, "0"], [most / 2, spelt("", most / 2)], [most, spelt("", most)]], its_marks: here, said: `timeouts per second: ${said("", "timeouts_per_s")}` });
  legend("timeouts", sides.map(side => [side, SIDES[side], spelt("", last(side, region).timeouts_per_s)]));
  for (const side of sides) {
    const kinds = Object.keys(PERCENTILES), now = last(side, region);
    plot(SIDES[side], {
      lines: kinds.map(kind => ({ points: of(side, region, `${kind}_ms`), kind: `${side} ${kind}` })), low: 100, high: 5000, log: true,
      ticks: [[100, "100 ms"], [200, "200"], [1000, "1 s"], [5000, "5 s"]], cap: [facts.cap_ms, `${facts.cap_ms} ms`], its_marks: side === "changing" ? here : [],
      said: `latency: ${kinds.map(kind => `${PERCENTILES[kind]} ${spelt("ms", now[`${kind}_ms`])}`).join(", ")}`,
    });
    legend(SIDES[side], kinds.map(kind => [`${side} ${kind}`, PERCENTILES[kind], spelt("ms", now[`${kind}_ms`])]));
  }
  const lines = facts.regions.flatMap(where => sides.map(side => ({ points: of(side, where, "nines"), kind: `${where} ${side === "changing" ? "thick" : "dotted"}` })));
  plot("nines", { lines, low: 0, high: 4, ticks: [[0, "0"], [1, "90 %"], [2, "99 %"], [3, "99.9 %"], [4, "99.99 %"]], its_marks: here, said: `nines: ${facts.regions.map(where => `${where} ${sides.map(side => `${SIDES[side]} ${nines(side, where)}`).join(", ")}`).join("; ")}` });
  legend("nines", facts.regions.flatMap(where => sides.map(side => [`${where} ${side === "changing" ? "thick" : "dotted"}`, `${where}, ${SIDES[side]}`, nines(side, where)])));
}

function buttons(id, names, label, pressed, press) {
  const box = find(id);
  for (const name of names) {
    let button = box.querySelector(`[data-name="${name}"]`);
    if (!button) {
      button = element("button", { type: "button", "data-name": name }, label(name));
      button.onclick = () => press(name);
      box.append(button);
    }
    button.setAttribute("aria-pressed", String(pressed === name));
  }
}

function turnTo(where) {
  region = where;
  for (const side of Object.keys(SIDES)) {
    phones[side].drawn = false;
    for (const mode of PRICED) phones[side].strips[mode].seen.length = 0;
  }
  controls();
  draw();
  askBoth();
}

function controls() {
  buttons("regions", facts.regions, name => facts.bursty.includes(name) ? `${name} (bad)` : name, region, turnTo);
  buttons("fixes", facts.fixes, name => FIX_NAMES[name], facts.sides.changing[region].fix, send);
  for (const button of find("fixes").querySelectorAll("button")) button.disabled = facts.is_switching;
  for (const side of Object.keys(SIDES)) phones[side].contender.textContent = `${FIX_NAMES[facts.sides[side][region].fix]}`;
  const cpu = Object.keys(SIDES).map(side => facts.regions.reduce((sum, where) => sum + (last(side, where).cpu_frac || 0), 0));
  find("said").textContent = facts.state || `the same riders on both services; left ${(100 * cpu[0]).toFixed(0)} %, right ${(100 * cpu[1]).toFixed(0)} % of a core`;
  find("foot").textContent = `Each region has a pricingservice of its own on either side, asked by ${facts.polls_per_s} polls a second and by a few other callers`
    + facts.bursty.map(name => `; in ${name} these come in bursts, every ${facts.burst_every_s} s here`).join("") + ". "
    + `Measured figures: greenlane demo offers without --page, one region and fix at a time.`;
}

async function send(fix) {
  const answer = await fetch("fix", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ fix }) });
  if (!answer.ok) find("said").textContent = (await answer.json()).error;
}

async function look() {
  // One at a time: what is asked for twice would be kept twice.
  if (looking) return;
  looking = true;
  const found = await asked(`live?after=${number}`);
  looking = false;
  if (!found) { find("said").textContent = "the demo has ended"; return; }
  facts = found;
  ({ number, marks, now_s } = facts);
  for (const [name, more] of Object.entries(facts.rows)) {
    rows[name] = [...(rows[name] || []), ...more].filter(row => row.t >= now_s - facts.kept_s - 2);
  }
  if (!region) turnTo(facts.first); else { controls(); draw(); }
}

async function asked(path) {
  try {
    const answer = await fetch(path);
    return answer.ok ? await answer.json() : null;
  } catch { return null; }
}

for (const side of Object.keys(SIDES)) phones[side] = phone(side);
look();
setInterval(look, LOOK_MS);
setInterval(askBoth, POLL_MS);
addEventListener("resize", () => { if (facts) draw(); });
