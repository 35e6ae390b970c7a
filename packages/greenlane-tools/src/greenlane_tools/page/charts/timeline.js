// The timeline: a lane for each thread or loop with what ran, below it the jobs; drawn on a canvas, only what is in view.
(() => {
  const box = document.querySelector(".timeline");
  if (!box) return;
  const data = JSON.parse(document.getElementById("timeline-data").textContent);
  const canvas = box.querySelector("canvas"), told = box.querySelector(".told"), field = box.querySelector(".find");
  const pen = canvas.getContext("2d"), ROW = 18, LEFT = 150, TOP = 20, HEIGHT = 420, LEAST_US = 5;
  const colour = (name) => getComputedStyle(box).getPropertyValue(`--${name}`).trim() || "#888";
  const names = ["cpu", "io", "loop", "gil", "permit", "stopped", "accept", "parked", "lock", "pool", "queue", "os", "blocked", "ink", "soft", "line", "card", "late"];
  let colours = {}, chosen = null, hits = null, hit = -1, scroll = 0, width = 0, waiting = false;
  let from = data.shown[0], to = data.shown[1];
  const duration = (us) => us >= 1e6 ? `${(us / 1e6).toFixed(3)} s` : us >= 1e3 ? `${(us / 1e3).toFixed(2)} ms` : `${us} us`;
  const clock = (us) => new Date(data.wall_ms + us / 1e3).toISOString().slice(11, 23);

  const lanes = [], jobs = [];
  data.processes.forEach((process) => {
    const running = new Map(), rows = [], ends = [];
    let begin = 0;
    for (let at = 0; at < process.jobs.length; at += 3) {
      begin += process.jobs[at];
      const job = { from: begin, to: begin + process.jobs[at + 1], route: process.jobs[at + 2], process, number: at / 3 };
      job.parts = process.parts[job.number];
      job.lane = ends.findIndex((end) => end <= job.from);
      if (job.lane < 0) { job.lane = ends.length; ends.push(0); rows.push([]); }
      ends[job.lane] = job.to;
      rows[job.lane].push(job);
      jobs.push(job);
      for (const [state, , start, end, lane] of job.parts || []) {
        if (state !== "cpu") continue;
        if (!running.has(lane)) running.set(lane, []);
        running.get(lane).push({ from: start, to: end, job });
      }
    }
    process.running = [];
    for (const [name, slices] of running) {
      slices.sort((a, b) => a.from - b.from);
      process.running.push({ name: `${process.name} ${data.lanes[name]}`, slices, at: lanes.length });
      lanes.push({ name: `${process.name} ${data.lanes[name]}`, slices, runs: true });
    }
    rows.forEach((row, number) => {
      row.forEach((job) => { job.lane = lanes.length; });
      lanes.push({ name: number ? "" : `${process.name} jobs`, slices: row.map((job) => ({ from: job.from, to: job.to, job })) });
    });
  });

  const x = (us) => LEFT + ((us - from) / (to - from)) * (width - LEFT);
  // What ran in the chosen job's process stays on top: that is where its arrows lead.
  const pinned = () => (chosen ? chosen.process.running.slice(0, 6) : []);
  let above = [], rest = [], place = new Map();
  const arrange = () => {
    above = pinned().map((one) => one.at);
    rest = [...lanes.keys()].filter((lane) => !above.includes(lane));
    place = new Map(rest.map((lane, row) => [lane, row]));
  };
  const y = (lane) => TOP + (place.has(lane) ? above.length + place.get(lane) - scroll : above.indexOf(lane)) * ROW;
  const room = () => Math.floor((HEIGHT - TOP) / ROW) - above.length;
  const first = (slices, us) => {
    let low = 0, high = slices.length;
    while (low < high) { const middle = (low + high) >> 1; if (slices[middle].to < us) low = middle + 1; else high = middle; }
    return low;
  };
  // Threads of a pool differ at their end.
  const short = (name) => (name.length > 22 ? `${name.slice(0, 16)}…${name.slice(-5)}` : name);
  const label = (text, left, top, most) => {
    if (most < 20) return;
    pen.fillText(text.length * 6.4 > most ? `${text.slice(0, Math.max(1, Math.floor(most / 6.4) - 1))}…` : text, left, top);
  };
  const bar = (start, end, lane, fill) => {
    const left = Math.max(LEFT, x(start)), right = Math.min(width, x(end));
    if (right < LEFT || left > width) return 0;
    pen.fillStyle = fill;
    pen.fillRect(left, y(lane) + 2, Math.max(1, right - left), ROW - 4);
    return right - left;
  };

  const drawLane = (lane, number) => {
    let last = -1;
    for (let at = first(lane.slices, from); at < lane.slices.length && lane.slices[at].from <= to; at++) {
      const slice = lane.slices[at], end = Math.round(x(slice.to)), found = hits && hits.has(slice.job);
      if (end === last && !found && slice.job !== chosen) continue;  // a pixel is drawn once
      last = end;
      const wide = bar(slice.from, slice.to, number, lane.runs ? colours.cpu : data.colours[slice.job.route % data.colours.length]);
      if (!lane.runs && slice.job.parts && wide > 3) {
        for (const [state, kind, start, stop] of slice.job.parts) bar(start, stop, number, colours[state === "wait" ? kind : state] || colours.soft);
      }
      if (found || slice.job === chosen) {
        pen.strokeStyle = slice.job === chosen ? colours.ink : colours.late;
        pen.lineWidth = 2;
        pen.strokeRect(Math.max(LEFT, x(slice.from)), y(number) + 1, Math.max(2, Math.min(width, x(slice.to)) - Math.max(LEFT, x(slice.from))), ROW - 2);
      }
      pen.fillStyle = colours.card;
      label(data.routes[slice.job.route], Math.max(LEFT, x(slice.from)) + 3, y(number) + 13, wide - 6);
    }
    pen.fillStyle = colours.soft;
    label(short(lane.name), 4, y(number) + 13, LEFT - 8);
  };

  // From each wait of the chosen job to the slice of who ran meanwhile.
  const arrows = () => {
    const found = [];
    for (const [state, , start, end, , who] of (chosen && chosen.parts) || []) {
      if (state !== "wait") continue;
      let best = null, most = 0;
      for (const lane of pinned()) {
        for (let at = first(lane.slices, start); at < lane.slices.length && lane.slices[at].from < end; at++) {
          const slice = lane.slices[at], shared = Math.min(slice.to, end) - Math.max(slice.from, start);
          if (slice.job !== chosen && data.routes[slice.job.route] === data.labels[who] && shared > most) { best = [lane, slice]; most = shared; }
        }
      }
      if (best) found.push([(start + end) / 2, chosen.lane, Math.max(best[1].from, start), best[0].at]);
    }
    box.dataset.arrows = found.length;
    pen.strokeStyle = pen.fillStyle = colours.late;
    pen.lineWidth = 1.5;
    for (const [us, lane, when, above] of found) {
      const end = [Math.max(LEFT, x(when)), y(above) + ROW - 2];
      pen.beginPath();
      pen.moveTo(x(us), y(lane) + 2);
      pen.lineTo(...end);
      pen.moveTo(end[0] - 4, end[1] + 7);
      pen.lineTo(...end);
      pen.lineTo(end[0] + 4, end[1] + 7);
      pen.stroke();
    }
  };

  const draw = () => {
    waiting = false;
    width = canvas.clientWidth;
    const dots = window.devicePixelRatio || 1;
    canvas.width = width * dots;
    canvas.height = HEIGHT * dots;
    pen.setTransform(dots, 0, 0, dots, 0, 0);
    names.forEach((name) => { colours[name] = colour(name); });
    pen.font = "11px system-ui, sans-serif";
    for (const number of [...above, ...rest.slice(scroll, scroll + room())]) drawLane(lanes[number], number);
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, TOP, width - LEFT, HEIGHT - TOP);
    pen.clip();
    arrows();
    pen.restore();
    pen.fillStyle = colours.soft;
    for (let part = 0; part < 4; part++) {
      const us = from + ((to - from) * part) / 4;
      label(data.wall_ms === null ? duration(Math.round(us)) : clock(us), x(us), 13, 130);
    }
    box.dataset.from = from;
    box.dataset.to = to;
    if (!box.dataset.drawn) box.dataset.drawn = performance.now();
  };
  const again = () => { if (!waiting) { waiting = true; requestAnimationFrame(draw); } };
  const show = (start, end) => {
    const most = data.whole[1] - data.whole[0], span = Math.min(most, Math.max(LEAST_US, end - start));
    from = Math.min(Math.max(data.whole[0], start), data.whole[1] - span);
    to = from + span;
    again();
  };
  const zoom = (by, around = (from + to) / 2) => show(around - (around - from) * by, around + (to - around) * by);
  const move = (part) => show(from + (to - from) * part, to + (to - from) * part);
  const lower = (rows) => { scroll = Math.min(Math.max(0, scroll + rows), Math.max(0, rest.length - room())); again(); };
  const choose = (job, fit) => {
    chosen = job;
    arrange();
    const parts = (job.parts || []).filter(([state]) => state === "wait").sort((a, b) => b[3] - b[2] - a[3] + a[2]).slice(0, 3);
    const waits = parts.map(([, kind, start, end, , who]) => `waited ${duration(end - start)} (${kind}) for ${data.labels[who] || "unknown"}`);
    told.textContent = [`${data.routes[job.route]}, ${duration(job.to - job.from)}`, `from ${data.wall_ms === null ? duration(job.from) : clock(job.from)}`, ...waits].join("; ");
    if (fit) show(job.from - (job.to - job.from) * 0.2, job.to + (job.to - job.from) * 0.2);
    const row = place.get(job.lane);
    if (row < scroll || row >= scroll + room()) lower(row - scroll - Math.floor(room() / 2));
    again();
  };
  const next = (step) => {
    const found = hits ? [...hits] : jobs;
    if (!found.length) return;
    if (!hits && chosen) hit = jobs.indexOf(chosen);
    hit = (hit + step + found.length) % found.length;
    choose(found[hit], true);
  };
  const slowest = () => jobs.length && choose(jobs.reduce((a, b) => (b.to - b.from > a.to - a.from ? b : a)), true);
  const keys = {
    ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), ArrowUp: () => lower(-1), ArrowDown: () => lower(1),
    PageUp: () => lower(-room()), PageDown: () => lower(room()), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2),
    Home: () => show(...data.whole), n: () => next(1), p: () => next(-1), s: slowest,
  };
  canvas.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  const when = (event) => from + ((event.clientX - canvas.getBoundingClientRect().left - LEFT) / (width - LEFT)) * (to - from);
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;  // the page scrolls without it
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, when(event));
  }, { passive: false });
  let held = null;
  canvas.addEventListener("pointerdown", (event) => { held = { x: event.clientX, from, to, moved: false }; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    if (!held || Math.abs(event.clientX - held.x) < 3) return;
    held.moved = true;
    const by = ((held.x - event.clientX) / (width - LEFT)) * (held.to - held.from);
    show(held.from + by, held.to + by);
  });
  canvas.addEventListener("pointerup", (event) => {
    const moved = held && held.moved, us = when(event);
    held = null;
    const row = Math.floor((event.clientY - canvas.getBoundingClientRect().top - TOP) / ROW);
    const lane = lanes[row < above.length ? above[row] : rest[scroll + row - above.length]];
    const slice = !moved && lane && lane.slices[first(lane.slices, us)];
    if (slice && slice.from <= us) choose(slice.job, false);
  });
  for (const button of box.querySelectorAll("button")) button.addEventListener("click", () => keys[button.dataset.key]());
  field.addEventListener("input", () => {
    const wanted = field.value.toLowerCase();
    const routes = new Set(data.routes.map((route, at) => (route.toLowerCase().includes(wanted) ? at : -1)));
    hits = wanted ? new Set(jobs.filter((job) => routes.has(job.route))) : null;
    hit = -1;
    told.textContent = hits ? `${hits.size} jobs; Enter or n: the next, p: the one before` : "";
    again();
  });
  field.addEventListener("keydown", (event) => { if (event.key === "Enter") next(event.shiftKey ? -1 : 1); });
  window.addEventListener("resize", again);
  box.dataset.jobs = jobs.length;
  slowest();
  draw();
})();
