// What every page can do: tabs, search in tables and in flame graphs. Text from a recording is only ever set as text.
(() => {
  for (const box of document.querySelectorAll(".tabbed")) {
    const panels = [...box.children].filter((child) => child.classList.contains("panel"));
    box.querySelector(".tabs").addEventListener("change", (event) =>
      panels.forEach((panel) => panel.classList.toggle("shown", panel.dataset.of === event.target.value)));
  }
  for (const box of document.querySelectorAll(".tabled")) {
    const field = box.querySelector(".search");
    if (!field) continue;
    const rows = [...box.querySelectorAll("tbody tr")];
    field.addEventListener("input", () => {
      const wanted = field.value.toLowerCase();
      rows.forEach((row) => { row.hidden = !row.textContent.toLowerCase().includes(wanted); });
    });
  }
  for (const graph of document.querySelectorAll(".flames")) flames(graph);

  function flames(graph) {
    const width = 1000, letter = 6.9;
    const told = graph.querySelector(".told"), whole = graph.querySelector(".whole"), field = graph.querySelector(".find");
    const frames = [...graph.querySelectorAll(".frame")].map((shape) => ({
      shape, x: +shape.dataset.x, w: +shape.dataset.w, y: +shape.querySelector("rect").getAttribute("y"),
      rect: shape.querySelector("rect"), text: shape.querySelector("text"),
      said: shape.querySelector("title").textContent,
    }));
    frames.forEach((one) => { one.name = one.said.slice(0, one.said.lastIndexOf(": ")); });
    const cut = (name, room) => {
      const most = Math.floor(room / letter);
      if (name.length <= most) return name;
      return most < 3 ? "" : name.slice(0, most - 1) + "…";
    };
    const zoom = (to) => {
      for (const one of frames) {
        const above = one.y < to.y && one.x <= to.x + 1e-9 && one.x + one.w >= to.x + to.w - 1e-9;
        const x = above ? 0 : ((one.x - to.x) / to.w) * width;
        const w = above ? width : (one.w / to.w) * width;
        const out = !above && (one.y < to.y || x < -1e-3 || x > width - 1e-3);
        one.shape.style.display = out ? "none" : "";
        one.shape.classList.toggle("above", above && to.y > 0);
        one.rect.setAttribute("x", x);
        one.rect.setAttribute("width", Math.max(w - 0.6, 0.2));
        one.text.setAttribute("x", x + 4);
        one.text.textContent = w > 26 ? cut(one.name, w - 8) : "";
      }
      whole.hidden = to === frames[0];
      told.textContent = to === frames[0] ? "" : to.said;
    };
    frames.forEach((one) => {
      one.shape.addEventListener("click", () => zoom(one));
      one.shape.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); zoom(one); }
        if (event.key === "Escape") zoom(frames[0]);
      });
    });
    whole.addEventListener("click", () => zoom(frames[0]));
    field.addEventListener("input", () => {
      const wanted = field.value.toLowerCase();
      let covered = 0, end = -1;
      const hits = frames.filter((one) => wanted && one.name.toLowerCase().includes(wanted));
      frames.forEach((one) => one.shape.classList.toggle("hit", hits.includes(one)));
      for (const one of [...hits].sort((a, b) => a.x - b.x || b.w - a.w)) {
        if (one.x >= end - 1e-9) { covered += one.w; end = one.x + one.w; }
      }
      told.textContent = wanted ? `${hits.length} frames, ${(covered * 100).toFixed(1)} % of the time` : "";
    });
  }
})();
