"use strict";
// Lessons: a question, the runs of its paths, the numbers and their explanation.
// List a lesson's cells: those of its command in the command's order, then those of its further questions.
const lessonCells = (lesson) => {
  const cells = lab.index.cells.filter((cell) => cell.block === lesson.block);
  const known = (name) => (lesson.axes[name] ?? []).filter((value) => cells.some((cell) => String(cell.condition[name]) === value));
  const varying = lab.index.axes.filter(({ name }) => new Set(cells.map((cell) => cell.condition[name])).size > 1);
  // A value such as 1bdp is not a cell's, which has packets.
  const measured = (cell) => varying.every((axis) => {
    const values = known(axis.name);
    return values.length ? values.includes(String(cell.condition[axis.name])) : axis.name in lesson.axes || cell.condition[axis.name] === axis.default;
  });
  const place = (cell) => Object.keys(lesson.axes).map((name) => known(name).indexOf(String(cell.condition[name])));
  const before = (one, other) => {
    const [first, second] = [place(one), place(other)];
    const at = first.findIndex((value, axis) => value !== second[axis]);
    return at < 0 ? 0 : first[at] - second[at];
  };
  const own = cells.filter(measured).sort(before);
  return [...own, ...cells.filter((cell) => !own.includes(cell))];
};

// Find the second cell to show: the first that differs from the lesson's first cell in its first axis with several values.
const lessonPartner = (lesson, [first, ...others]) => {
  const name = Object.keys(lesson.axes).find((each) => lesson.axes[each].length > 1);
  return others.find((cell) => cell.condition[name] !== first.condition[name]);
};

// Open a lesson, and show two of its cells.
lab.openLesson = (lesson) => {
  document.getElementById(`lesson-${lesson.block}`).open = true;
  lab.setOverlay(false);
  const cells = lessonCells(lesson);
  [cells[0], lessonPartner(lesson, cells)].forEach((cell, at) => lab.choose(lab.panes[at], cell, lab.meanRun(cell)));
};

// Format the mean of a metric over a cell's valid runs, and their range.
const lessonNumber = (cell, metric) => {
  const values = cell.runs.filter((run) => run.valid).map((run) => run.summary[metric]).filter((value) => value !== undefined);
  if (!values.length) return "–";
  const [low, high] = [Math.min(...values), Math.max(...values)].map((value) => lab.number(value));
  return `${lab.number(lab.mean(values))}${low === high ? "" : ` (${low} to ${high})`}`;
};

const lessonTable = (lesson) => {
  const cells = lessonCells(lesson);
  const axes = lab.index.axes.filter(({ name }) => new Set(cells.map((cell) => cell.condition[name])).size > 1);
  const metrics = lesson.metrics.length ? lesson.metrics : [cells[0].result.metric];
  const titled = (name, unit) => (unit ? `${name} (${unit})` : name);
  const heads = ["Show", ...axes.map(({ name }) => titled(lab.key(name).name, lab.key(name).unit)),
    ...metrics.map((metric) => titled(...lab.index.labels[metric]))];
  const head = lab.make("tr", {}, ...heads.map((textContent) => lab.make("th", { scope: "col", textContent })));
  const rows = cells.map((cell) => lab.make("tr", {}, lab.showField(cell),
    ...axes.map(({ name }) => lab.make("td", { textContent: typeof cell.condition[name] === "number" ? lab.number(cell.condition[name]) : cell.condition[name] })),
    ...metrics.map((metric) => lab.make("td", { className: "number", textContent: lessonNumber(cell, metric) }))));
  const table = lab.make("table", {}, lab.make("thead", {}, head), lab.make("tbody", {}, ...rows));
  const region = lab.make("div", { className: "scroll", tabIndex: 0 }, table);
  region.setAttribute("role", "region");
  region.setAttribute("aria-label", `Numbers of the lesson ${lesson.title}`);
  return region;
};

const folded = (title, ...children) => lab.make("details", {}, lab.make("summary", { textContent: title }), ...children);

lab.drawLessons = () => {
  const lessons = lab.index.lessons.filter((lesson) => lessonCells(lesson).length);
  document.getElementById("lessons-section").hidden = !lessons.length;
  document.getElementById("to-lessons").hidden = !lessons.length;
  document.getElementById("lesson-list").replaceChildren(...lessons.map((lesson) => {
    const count = Math.max(...lessonCells(lesson).map((cell) => cell.runs.length));
    const button = lab.make("button", { type: "button", textContent: "Show two of its paths" });
    button.addEventListener("click", () => {
      lab.openLesson(lesson);
      document.getElementById("time-title").scrollIntoView();
    });
    const note = lab.make("p", { className: "note", textContent: `Means over ${count} runs, with the lowest and the highest.` });
    return lab.make("details", { className: "lesson", id: `lesson-${lesson.block}` },
      lab.make("summary", { textContent: lesson.title }),
      lab.make("p", { innerHTML: `<strong>Predict.</strong> ${lesson.predict}` }),
      lab.make("p", {}, button),
      folded("Compare: the measured numbers", lessonTable(lesson), note),
      folded("Explain", ...lesson.explain.map((innerHTML) => lab.make("p", { innerHTML }))),
      folded("Measure it yourself", lab.make("pre", { textContent: lesson.commands.join("\n") })));
  }));
};
