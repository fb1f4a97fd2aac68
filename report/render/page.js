"use strict";
// Mark the section in view in the contents, open folded parts that a link leads to, filter tables, prepare
// them for phones and keyboards, and switch between light and dark.
(() => {
  // Characters that fit beside one another on a phone's screen of 360 px. The style shows each row of
  // a wider table as a card, which needs its columns' names, and roles, which `display` removes.
  const PHONE_CHARACTERS = 44;
  const ROLES = {
    thead: "rowgroup", tbody: "rowgroup", tr: "row", th: "columnheader", td: "cell", caption: "caption",
  };
  const longestWord = (cell) => Math.max(...cell.textContent.split(/[ \n\u200b]/).map((word) => word.length));
  for (const table of document.querySelectorAll("table")) {
    const widths = [];
    for (const row of table.rows) {
      [...row.cells].forEach((cell, at) => { widths[at] = Math.max(widths[at] ?? 0, longestWord(cell) + 2); });
    }
    if (widths.reduce((sum, width) => sum + width, 0) <= PHONE_CHARACTERS) continue;
    const names = [...table.querySelectorAll("th")].map((head) => head.textContent.trim());
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, at) => { cell.dataset.label = names[at] ?? ""; });
    }
    for (const [tag, role] of Object.entries(ROLES)) {
      table.querySelectorAll(tag).forEach((element) => element.setAttribute("role", role));
    }
    table.setAttribute("role", "table");
    table.dataset.cards = "";
  }
  // Blocks that scroll: pandoc's, and Quarto's.
  for (const block of document.querySelectorAll(".table-block, .cell-output-display:has(> table)")) block.tabIndex = 0;

  document.getElementById("theme")?.addEventListener("click", () => {
    const { dataset } = document.documentElement;
    dataset.theme = dataset.theme === "dark" ? "light" : "dark";
  });

  // On a narrow screen, the contents follow the findings.
  if (matchMedia("(max-width: 1099px)").matches) {
    document.querySelector(".losslab main > .callout")?.before(document.getElementById("TOC"));
  }

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
