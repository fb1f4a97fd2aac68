"use strict";
// Search of the table of cells by parts, such as "loss 1 % bbr 1000".
const TOKEN = /\d+(?:\.\d+)?|[^\s\d%][^\s%]*|%/g;
const UNITS = { "%": "%", ms: "ms", s: "s", "mbit/s": "Mbit/s", mbit: "Mbit/s", packets: "packets" };
// Axes that a number without a name or a unit may mean.
const PLAIN = ["loss_percent", "rtt_ms", "rate_mbit", "buffer_packets"];

const numeric = () => lab.index.axes.filter((axis) => typeof axis.default === "number" || axis.name === "loss_percent");

// Find the axis that a word names: by its whole name, such as "loss" or "buffer".
const axisOf = (word) => numeric().find(({ name }) => lab.key(name).name.toLowerCase() === word);

// Build a test of a cell for a number, which has a name before it or a unit after it, or neither.
const numberTest = (value, axis, unit) => {
  const ofUnit = (name) => lab.key(name).unit === unit;
  const names = axis ? [axis.name] : unit ? numeric().map(({ name }) => name).filter(ofUnit) : PLAIN;
  return (cell) => names.some((name) => cell.condition[name] === value && (name !== "rate_mbit" || cell.condition.trace === "none"));
};

// Build a test of a cell for a word: the name of an algorithm, or a part of the cell's names.
const wordTest = (word) => {
  if (word in lab.index.algorithms) {
    return (cell) => lab.controlName(cell) === word || cell.condition.competitor === word;
  }
  return (cell) => `${cell.study} ${cell.block} ${cell.cell} ${cell.words}`.toLowerCase().includes(word);
};

// Parse a query to tests, all of which a cell must pass.
lab.parseQuery = (query) => {
  const tokens = query.toLowerCase().match(TOKEN) ?? [];
  const tests = [];
  for (let at = 0; at < tokens.length; at += 1) {
    const named = axisOf(tokens[at]);
    const follows = /^\d/.test(tokens[at + 1] ?? "");
    if (named && follows) at += 1;
    if (/^\d/.test(tokens[at])) {
      const unit = UNITS[tokens[at + 1]];
      tests.push(numberTest(Number(tokens[at]), named && follows ? named : null, unit));
      if (unit) at += 1;
    } else if (tokens[at] !== "%") {
      tests.push(wordTest(tokens[at]));
    }
  }
  return tests;
};
