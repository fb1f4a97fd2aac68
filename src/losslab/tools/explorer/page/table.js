"use strict";
// Table of all cells: sorted by a column, filtered by search terms, study and invalid runs.
lab.order = { column: 0, down: false };

const condition = (name) => (cell) => cell.condition[name];
// A trace replaces the rate.
const rate = (cell) => (cell.condition.trace === "none" ? cell.condition.rate_mbit : null);
lab.columns = [
  { title: "Study", of: (cell) => cell.study },
  { title: "Block", of: (cell) => cell.block, wide: true },
  { title: "Cell", of: (cell) => cell.words, show: (cell) => lab.make("span", { textContent: cell.words, title: cell.cell }) },
  { title: "Algorithm", of: (cell) => lab.controlOf(cell).label, wide: true },
  { title: "Loss (%)", of: condition("loss_percent"), number: true, wide: true },
  { title: "RTT (ms)", of: condition("rtt_ms"), number: true, wide: true },
  { title: "Rate (Mbit/s)", of: rate, number: true, wide: true, show: (cell) => (rate(cell) === null ? "trace" : lab.number(rate(cell))) },
  { title: "Buffer (packets)", of: condition("buffer_packets"), number: true, wide: true },
  { title: "Length (s)", of: condition("duration_s"), number: true, wide: true },
  { title: "Valid runs", of: (cell) => cell.result.n, number: true },
  { title: "Mean of the main metric", of: (cell) => cell.result.mean, number: true, show: (cell) => lab.meanWords(cell) },
  { title: "Retransmits (packets)", of: (cell) => cell.result.retransmits, number: true, wide: true },
  { title: "Invalid runs", of: (cell) => cell.invalid, number: true, show: (cell) => lab.invalidWords(cell) },
];

lab.meanWords = (cell) => {
  const { metric, mean } = cell.result;
  if (!metric) return "–";
  const { name, unit } = lab.key(metric);
  return lab.make("span", { textContent: `${name} ${lab.number(mean)} ${unit}` });
};

lab.invalidWords = (cell) => {
  if (!cell.invalid) return "";
  const reasons = [...new Set(cell.runs.flatMap((run) => run.reasons))];
  const summary = lab.make("summary", { textContent: `${cell.invalid} of ${cell.runs.length}` });
  return lab.make("details", { className: "invalid" }, summary, ...reasons.map((why) => lab.make("p", { textContent: why })));
};

lab.compare = (one, other) => {
  if (one === other) return 0;
  if (one === null || one === undefined) return 1;
  if (other === null || other === undefined) return -1;
  return typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other), "en", { numeric: true });
};

lab.rows = () => {
  const tests = lab.parseQuery(document.getElementById("filter").value);
  const study = document.getElementById("filter-study").value;
  const invalid = document.getElementById("filter-invalid").checked;
  const found = lab.index.cells.filter((cell) =>
    (!study || cell.study === study) && (!invalid || cell.invalid > 0) && tests.every((test) => test(cell)));
  const { of } = lab.columns[lab.order.column];
  found.sort((one, other) => lab.compare(of(one), of(other)) * (lab.order.down ? -1 : 1));
  return found;
};

lab.drawHead = () => {
  const row = lab.make("tr", {}, lab.make("th", { scope: "col", textContent: "Show" }));
  lab.columns.forEach((column, at) => {
    const button = lab.make("button", { type: "button", textContent: column.title });
    const head = lab.make("th", { scope: "col", className: column.wide ? "wide" : "" }, button);
    const sorted = at === lab.order.column;
    head.setAttribute("aria-sort", sorted ? (lab.order.down ? "descending" : "ascending") : "none");
    button.addEventListener("click", () => {
      lab.order = { column: at, down: sorted ? !lab.order.down : false };
      lab.drawHead();
      lab.drawRows();
      document.querySelectorAll("#table thead button")[at].focus();
    });
    row.append(head);
  });
  document.querySelector("#table thead").replaceChildren(row);
};

// Make the field of a row with the buttons that show its cell.
lab.showField = (cell) => lab.make("td", { className: "show" }, ...lab.panes.map((pane) => {
  const label = `Show ${cell.words} in ${pane.title}`;
  const button = lab.make("button", { type: "button", textContent: pane.key.toUpperCase(), title: label });
  button.setAttribute("aria-label", label);
  button.addEventListener("click", () => lab.choose(pane, cell, lab.meanRun(cell), true));
  return button;
}));

// Rows that the table has at first: a browser takes seconds to lay out thousands.
const FIRST_ROWS = 100;

lab.drawRows = () => {
  const rows = lab.rows();
  const more = document.getElementById("more");
  const drawn = more.dataset.all ? rows : rows.slice(0, FIRST_ROWS);
  more.hidden = drawn.length === rows.length;
  more.textContent = `Show all ${rows.length} rows`;
  const body = drawn.map((cell) => {
    const cells = lab.columns.map((column) => {
      const content = column.show ? column.show(cell) : column.number ? lab.number(column.of(cell)) : String(column.of(cell));
      return lab.make("td", { className: `${column.wide ? "wide" : ""} ${column.number ? "number" : ""}`.trim() }, content);
    });
    return lab.make("tr", {}, lab.showField(cell), ...cells);
  });
  document.querySelector("#table tbody").replaceChildren(...body);
  document.getElementById("count").textContent = `${rows.length} of ${lab.index.cells.length} cells`;
};
