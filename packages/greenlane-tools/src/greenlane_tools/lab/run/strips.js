// The replay: one caller per contender that asks once a second.
(() => {
  const strips = JSON.parse(document.getElementById("strips").textContent);
  const phones = [...document.querySelectorAll(".phone")];
  const cursor = document.querySelector(".cursor");
  if (!phones.length || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  const began = performance.now();
  let shown = -1;
  const step = () => {
    const t = ((performance.now() - began) / 1000) % strips.seconds;
    cursor.setAttribute("transform", `translate(${strips.left + (t / strips.seconds) * strips.width} 0)`);
    if (Math.floor(t) !== shown) {
      shown = Math.floor(t);
      phones.forEach((phone, n) => {
        const polls = strips.polls[n];
        const [late, ms] = polls[Math.min(shown, polls.length - 1)];
        phone.classList.toggle("gone", late === 1);
        phone.querySelector(".answer").textContent = late ? "too late" : `in ${ms} ms`;
      });
    }
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})();
