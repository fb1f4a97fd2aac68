"use strict";
// Mark the section in view in the contents, open folded parts that a link leads to, and filter tables.
(() => {
  const links = new Map([...document.querySelectorAll("nav#TOC a[href^='#']")]
    .map((link) => [document.getElementById(decodeURIComponent(link.hash.slice(1))), link]));
  links.delete(null);

  // The section in view is the last one that begins above this height.
  const READING_PX = 100;
  const mark = () => {
    let current = null;
    for (const [section, link] of links) {
      const { top, height } = section.getBoundingClientRect();
      if (height > 0 && top < READING_PX) current = link;
    }
    for (const link of links.values()) {
      if (link === current) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    const nav = document.getElementById("TOC");
    if (current && getComputedStyle(nav).position === "fixed") {
      const { offsetTop } = current;
      if (offsetTop < nav.scrollTop || offsetTop > nav.scrollTop + nav.clientHeight - 60) {
        nav.scrollTop = offsetTop - nav.clientHeight / 2;
      }
    }
  };
  let waiting = false;
  const later = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; mark(); });
  };
  addEventListener("scroll", later, { passive: true });
  addEventListener("resize", later);

  const unfold = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    target?.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));

  for (const block of document.querySelectorAll(".filterable")) {
    const input = document.createElement("input");
    const count = document.createElement("output");
    input.type = "search";
    input.placeholder = "Words that a row must have";
    input.setAttribute("aria-label", "Filter the table");
    const rows = [...block.querySelectorAll("tbody tr")];
    const filter = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        shown += row.hidden ? 0 : 1;
      }
      count.textContent = `${shown} of ${rows.length} rows`;
    };
    input.addEventListener("input", filter);
    filter();
    const tools = document.createElement("p");
    tools.className = "filter";
    tools.append(input, " ", count);
    block.before(tools);
  }

  if (location.hash) unfold();
  mark();
})();
