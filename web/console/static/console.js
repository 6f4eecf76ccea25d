// What pages do more with script. Without it, every link and form works as well.
"use strict";

// Copy the text of an element.
for (const button of document.querySelectorAll("button[data-copy]")) {
  if (!navigator.clipboard) break;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

// Opening an entry's children by the triangle: the link in the same line leads to the entry.
document.addEventListener("htmx:after:swap", (event) => {
  const target = event.detail?.ctx?.target;
  if (target?.matches?.("li.more")) document.querySelector(".tree li.more a")?.focus();
});

// Parts that refresh themselves wait while nobody sees the window.
document.addEventListener("htmx:before:request", (event) => {
  if (document.hidden) event.preventDefault();
});

// Keys: / searches, g t opens the tree, n goes from the past to now, ? shows help of the search page.
let before = "";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  if (event.key === "/") {
    const quick = document.getElementById("q") ?? document.getElementById("quick");
    if (quick) { event.preventDefault(); quick.focus(); }
  } else if (before === "g" && event.key === "t") {
    location.href = "/tree";
  } else if (event.key === "n") {
    document.querySelector(".past-banner a")?.click();
  } else if (event.key === "?") {
    location.href = "/search";
  }
  before = event.key;
});

// The bar of time: what it shows goes into the box beside it; arrow keys go from tick to tick.
function choose(bar, value) {
  bar.value = value;
  const tick = [...bar.list.options].find((o) => o.value === bar.value);
  const time = new Date(Number(bar.value)).toISOString();
  const text = tick ? tick.label : time.slice(0, 19).replace("T", " ");
  bar.form.elements.at.value = tick ? tick.dataset.at : time;
  bar.parentElement.querySelector("output").textContent = text;
  bar.setAttribute("aria-valuetext", text);
}
document.addEventListener("input", (event) => {
  if (event.target.matches("input.when")) choose(event.target, event.target.value);
});
document.addEventListener("keydown", (event) => {
  const bar = event.target, step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
  if (!step || !bar.matches("input.when")) return;
  event.preventDefault();
  const next = [...bar.list.options].map((o) => Number(o.value)).filter((v) => (v - bar.value) * step > 0).sort((a, b) => (a - b) * step)[0];
  if (next !== undefined) choose(bar, next);
});

// A menu closes when one leaves it.
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open], form.time details[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const menu = document.querySelector("details.menu[open]");
  if (menu) { menu.open = false; menu.querySelector("summary").focus(); }
});
