"use strict";
const known = JSON.parse(document.body.dataset.known);
const PAGE = 48;
const at = id => document.getElementById(id);
const SHAPES = {
  cars: '<path d="M8 40v-9l9-3 8-10h18l8 10 7 3v9z"/><circle class="h" cx="20" cy="41" r="6"/><circle class="h" cx="47" cy="41" r="6"/>',
  car_parts: '<circle cx="32" cy="32" r="20"/><circle class="h" cx="32" cy="32" r="11"/><circle cx="32" cy="32" r="4"/>',
  motorcycles: '<circle cx="16" cy="40" r="10"/><circle cx="48" cy="40" r="10"/><path d="M16 40l9-14h14l9 14-6 1-7-9-9 9z"/>',
  flats: '<path d="M14 54V12h36v42z"/><path class="h" d="M21 19h7v7h-7zm15 0h7v7h-7zM21 32h7v7h-7zm15 0h7v7h-7zm-8 14h8v8h-8z"/>',
  houses: '<path d="M32 10 6 32h8v22h36V32h8z"/><path class="h" d="M27 38h10v16H27z"/>',
  garages: '<path d="M8 54V24l24-12 24 12v30z"/><path class="h" d="M16 32h32v5H16zm0 8h32v5H16zm0 8h32v6H16z"/>',
  jobs: '<path d="M8 22h14v-8h20v8h14v30H8z"/><path class="h" d="M27 18h10v4H27zM8 34h20v4h8v-4h20v3H36v5h-8v-5H8z"/>',
  services: '<path d="M44 8a14 14 0 0 0-13 19L9 49l7 7 22-22A14 14 0 0 0 55 17l-8 8-8-8z"/>',
  phones: '<rect x="20" y="6" width="24" height="52" rx="5"/><path class="h" d="M23 12h18v36H23z"/>',
  laptops: '<path d="M14 14h36v26H14zM6 44h52l-4 8H10z"/><path class="h" d="M18 18h28v18H18z"/>',
  consoles: '<path d="M16 20h32c8 0 12 26 6 28-5 2-8-8-12-8H22c-4 0-7 10-12 8-6-2-2-28 6-28z"/><circle class="h" cx="44" cy="29" r="4"/><path class="h" d="M18 26h4v-4h4v4h4v4h-4v4h-4v-4h-4z"/>',
  audio: '<rect x="16" y="6" width="32" height="52" rx="4"/><circle class="h" cx="32" cy="40" r="11"/><circle class="h" cx="32" cy="18" r="6"/>',
  cameras: '<path d="M6 20h14l5-8h14l5 8h14v32H6z"/><circle class="h" cx="32" cy="36" r="11"/><circle cx="32" cy="36" r="6"/>',
  furniture: '<path d="M14 14h36v16H14zM6 26h8v10h36V26h8v22H6zM10 48h6v6h-6zm38 0h6v6h-6z"/>',
  kitchen: '<rect x="16" y="6" width="32" height="52" rx="3"/><path class="h" d="M16 24h32v3H16zM21 12h4v8h-4zm0 20h4v12h-4z"/>',
  garden: '<path d="M30 58V34C16 36 10 28 10 16c14 0 20 6 22 14 2-10 8-16 22-16 0 14-6 22-20 20v24z"/>',
  clothes: '<path d="M22 8 6 18l6 12 6-4v30h28V26l6 4 6-12L42 8c-2 8-18 8-20 0z"/>',
  shoes: '<path d="M8 18h14c2 10 14 14 26 16 6 1 8 6 8 12H8z"/><path class="h" d="M8 41h48v2H8z"/>',
  children: '<path d="M10 30h26V8c14 0 20 12 20 22-2 10-10 14-18 14H26c-10 0-14-6-16-14z"/><circle cx="22" cy="52" r="6"/><circle cx="46" cy="52" r="6"/>',
  bicycles: '<circle cx="16" cy="40" r="12"/><circle class="h" cx="16" cy="40" r="8"/><circle cx="48" cy="40" r="12"/><circle class="h" cx="48" cy="40" r="8"/><path d="M14 40l9-18h-5v-4h12v4h-2l2 4h12l-3-8h8v4h-3l6 18-3 1-4-11-9 12h-5l-7-14-6 12z"/>',
  sport: '<path d="M6 24h6v16H6zm8-6h8v28h-8zm10 11h16v6H24zm18-11h8v28h-8zm10 6h6v16h-6z"/>',
  books: '<path d="M8 12c10-2 18 0 24 6 6-6 14-8 24-6v38c-10-2-18 0-24 5-6-5-14-7-24-5z"/><path class="h" d="M31 20h2v32h-2z"/>',
  music: '<path d="M22 12l32-6v38a8 7 0 1 1-5-6V20l-22 4v26a8 7 0 1 1-5-6z"/>',
  pets: '<circle cx="14" cy="28" r="7"/><circle cx="26" cy="16" r="7"/><circle cx="40" cy="16" r="7"/><circle cx="51" cy="28" r="7"/><path d="M32 30c10 0 18 12 16 20-3 8-12 2-16 2s-13 6-16-2c-2-8 6-20 16-20z"/>',
};

// A picture from the item alone: the category's shape, a hue of its kind, a blot of its topics, a dot for each photo.
function picture(item) {
  const hue = (item.category_number * 15 + item.kind * 4) % 360;
  const clear = Math.round(18 + 50 * (item.photo_quality ?? 0));
  const colour = light => `hsl(${hue} ${clear}% ${light})`;
  const topics = item.topics ?? [0, 0, 0, 0, 0, 0, 0, 0];
  const corner = (topic, place) => {
    const angle = place * Math.PI / 4, far = 62 + topic * 0.3;
    return [100 + 1.15 * far * Math.cos(angle), 75 + far * Math.sin(angle)];
  };
  const corners = topics.map(corner);
  const between = (one, two) => [(one[0] + two[0]) / 2, (one[1] + two[1]) / 2].map(value => value.toFixed(1)).join(" ");
  const curve = corners.map((one, place) => `Q${one.map(value => value.toFixed(1)).join(" ")} ${between(one, corners[(place + 1) % 8])}`);
  const dots = Array.from({length: Math.min(item.images, 12)}, (_, place) =>
    `<circle cx="${100 + 9 * (place - (Math.min(item.images, 12) - 1) / 2)}" cy="139" r="2.4" fill="${colour("var(--deep)")}"/>`);
  const frame = item.images ? "" : '<rect x="8" y="8" width="184" height="134" rx="8" fill="none" stroke="var(--soft)" stroke-dasharray="4 5"/>';
  return `<svg viewBox="0 0 200 150" role="img" aria-label="${item.category.replace("_", " ")}">` +
    `<rect width="200" height="150" fill="${colour("calc(var(--light) + 8%)")}"/>` +
    `<path d="M${between(corners[7], corners[0])}${curve.join("")}Z" fill="${colour("var(--light)")}"/>` +
    `<g transform="translate(58 30) scale(1.3)" fill="${colour("var(--deep)")}">` +
    `${SHAPES[item.category] ?? '<circle cx="32" cy="32" r="20"/>'}</g>${frame}${dots.join("")}</svg>`;
}

const money = new Intl.NumberFormat("en", {maximumFractionDigits: 0});
const made = (tag, style, said) => {
  const element = document.createElement(tag);
  if (style) element.className = style;
  if (said !== undefined) element.textContent = said;
  return element;
};

function age(seconds) {
  for (const [name, length] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    const count = Math.floor(seconds / length);
    if (count) return `${count} ${name}${count > 1 ? "s" : ""} ago`;
  }
  return "now";
}

function tile(id, item, place) {
  const card = made("article");
  card.dataset.id = id;
  if (!item) {
    card.className = "lost";
    card.append(made("p", "soft", `item ${id}: its record cannot be had now`));
    return card;
  }
  card.innerHTML = picture(item);
  if (item.boost) {
    card.classList.add("paid");
    const ribbon = made("span", "ribbon", "boosted " + "▲".repeat(item.boost));
    ribbon.title = `paid boost of level ${item.boost}: it stands higher than its score alone would put it`;
    card.append(ribbon);
  }
  card.append(made("span", "place", place));
  const words = made("div", "words"), price = made("div", "price", item.price === null ? "on request" : money.format(item.price));
  if (item.old_price && item.price) price.append(made("s", "", money.format(item.old_price)));
  const rated = item.seller_rating === null ? "new seller" : `★ ${item.seller_rating.toFixed(1)} (${item.seller_reviews})`;
  const facts = [item.is_company ? "company" : "", item.has_delivery ? "delivers" : ""].filter(Boolean);
  words.append(
    price, made("p", "title", item.title),
    made("p", "where", `${item.city.replace("_", " ")} · ${age(item.age_s)}`),
    made("p", "where", [rated, ...facts].join(" · ")),
  );
  card.append(words);
  return card;
}

// One feed on the screen; a newer one makes its answers void.
let feed = {number: 0};

async function answer(url) {
  const response = await fetch(url);
  const found = await response.json();
  if (!response.ok) throw new Error(found.error ?? response.status);
  return found;
}

function problems(found) {
  for (const {part, reason, effect} of found) {
    const said = `${part}: ${reason}: ${effect}`;
    if (feed.problems.has(said)) continue;
    feed.problems.add(said);
    at("problems").append(made("li", "", said));
  }
  at("problems").hidden = !feed.problems.size;
}

async function more() {
  const mine = feed;
  if (mine.busy || !mine.next) return;
  mine.busy = true;
  try {
    const began = performance.now();
    const page = await answer(mine.next);
    const took = performance.now() - began;
    const shown = page.ids.length ? await answer(`/tiles?ids=${page.ids.join(",")}`) : {tiles: [], degraded: []};
    if (mine !== feed) return;
    mine.shown += page.ids.length;
    at("tiles").append(...page.ids.map((id, place) => tile(id, shown.tiles[place], page.from + place + 1)));
    problems([...page.degraded, ...shown.degraded]);
    mine.next = page.next;
    at("said").textContent = `${mine.shown} of ${page.total} items; last page in ${took.toFixed(0)} ms; variant ${page.variant}`;
    at("end").textContent = page.next ? "…" : page.total ? "that is all" : "nothing to show";
  } catch (error) {
    if (mine !== feed) return;
    mine.next = null;
    at("end").textContent = `no answer: ${error.message}`;
  } finally {
    mine.busy = false;
  }
  if (mine === feed && near()) more();
}

const near = () => at("end").getBoundingClientRect().top < innerHeight * 2;

function show(user) {
  feed = {number: feed.number + 1, next: `/feed?user=${user}&size=${PAGE}`, shown: 0, problems: new Set(), busy: false};
  at("user").value = user;
  at("tiles").replaceChildren();
  at("problems").replaceChildren();
  at("problems").hidden = true;
  at("end").textContent = "…";
  history.replaceState(null, "", `?user=${user}`);
  document.title = `feed of user ${user}`;
  scrollTo(0, 0);
  more();
}

at("who").addEventListener("submit", event => { event.preventDefault(); show(Number(at("user").value)); });
at("other").addEventListener("click", () => show(1 + Math.floor(Math.random() * known.users)));
at("stranger").addEventListener("click", () => show(known.users + 1_000_000));
// Not an IntersectionObserver: it tells changes only, and misses the end that leaves and comes back within a frame.
for (const event of ["scroll", "resize"]) addEventListener(event, () => near() && more(), {passive: true});
const wanted = Number(new URLSearchParams(location.search).get("user"));
show(Number.isInteger(wanted) && wanted > 0 ? wanted : 3);
