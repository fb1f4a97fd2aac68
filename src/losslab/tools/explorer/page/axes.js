"use strict";
// Choice of a cell by the axes in which the cells of its block differ. Only measured values can be chosen.
lab.blockOf = (cell) => lab.index.cells.filter((each) => each.study === cell.study && each.block === cell.block);

// List the values of an axis that cells have, in order.
const valuesOfAxis = (cells, name) => [...new Set(cells.map((cell) => cell.condition[name]))]
  .sort((one, other) => (typeof one === "number" ? one - other : 0));

const sameValues = (one, other) => one.length === other.length && one.every((value, at) => value === other[at]);

// List the axes of a cell's block, each with the values that remain after the choice of all axes before it.
lab.choices = (cell) => {
  let cells = lab.blockOf(cell);
  return lab.index.axes.flatMap(({ name }) => {
    const values = valuesOfAxis(cells, name);
    cells = cells.filter((each) => each.condition[name] === cell.condition[name]);
    return values.length > 1 ? [{ name, values, value: cell.condition[name] }] : [];
  });
};

// Find the cell with another value of an axis. The axes after it keep their values. If an axis has other numbers there,
// such as buffers at another rate, it keeps its place among them.
lab.withValue = (cell, axis, value) => {
  const names = lab.index.axes.map(({ name }) => name);
  const changed = names.indexOf(axis);
  let here = lab.blockOf(cell);
  let there = here;
  for (const [at, name] of names.entries()) {
    const now = cell.condition[name];
    const [before, after] = [valuesOfAxis(here, name), valuesOfAxis(there, name)];
    let wanted = now;
    if (at === changed) wanted = value;
    else if (!after.includes(now) || (typeof now === "number" && !sameValues(before, after))) {
      wanted = after[Math.min(before.indexOf(now), after.length - 1)];
    }
    here = here.filter((each) => each.condition[name] === now);
    there = there.filter((each) => each.condition[name] === wanted);
  }
  return there[0];
};

const FRAME_BITS = 8 * 1514;

// Format a value of an axis; a buffer also as bandwidth-delay products.
lab.axisValue = (cell, name, value) => {
  if (typeof value !== "number") {
    return name === "algorithm" ? lab.algorithm(value).label : String(value);
  }
  const text = `${lab.number(value)} ${lab.key(name).unit}`.trim();
  const { rate_mbit, rtt_ms, trace } = cell.condition;
  if (name !== "buffer_packets" || trace !== "none" || !rtt_ms) return text;
  return `${text}, ${lab.number((value * FRAME_BITS) / (rate_mbit * 1e3 * rtt_ms), 2)} BDP`;
};

// Draw a pane's sliders and menus; the one in use keeps the focus.
lab.drawAxes = (pane) => {
  const { cell } = pane;
  const host = pane.root.querySelector(".axes");
  const focused = host.contains(document.activeElement) ? document.activeElement.name : "";
  host.replaceChildren(...lab.choices(cell).map(({ name, values, value }) => {
    const at = values.indexOf(value);
    const number = typeof value === "number";
    const title = lab.key(name).name;
    const shown = lab.axisValue(cell, name, value);
    const control = number
      ? lab.make("input", { type: "range", min: 0, max: values.length - 1, step: 1 })
      : lab.make("select", {}, ...values.map((each, place) => new Option(lab.axisValue(cell, name, each), place)));
    control.name = name;
    control.value = at;
    if (number) control.setAttribute("aria-valuetext", shown);
    control.addEventListener("input", () => {
      const other = lab.withValue(cell, name, values[Number(control.value)]);
      lab.choose(pane, other, pane.number === lab.MEAN ? lab.meanRun(other) : lab.firstRun(other));
    });
    const head = number ? [`${title} `, lab.make("output", { textContent: shown })] : [title];
    return lab.make("label", {}, ...head, control);
  }));
  if (focused) host.querySelector(`[name="${focused}"]`)?.focus();
};
