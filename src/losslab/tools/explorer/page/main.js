"use strict";
// Choice of runs, the page's address, and its start.
lab.pane = (key, title) => {
  const root = document.getElementById("pane").content.firstElementChild.cloneNode(true);
  root.id = `pane-${key}`;
  root.querySelector("h3").textContent = title;
  const chooser = (name) => root.querySelector(`[data-choose=${name}]`);
  const pane = {
    key, title, root, charts: [], run: null, cell: null, number: 0,
    chartsHost: root.querySelector(".charts"),
    choosers: { study: chooser("study"), cell: chooser("cell"), run: chooser("run") },
  };
  document.getElementById("panes").append(root);
  const studies = [...new Set(lab.index.cells.map((cell) => cell.study))];
  pane.choosers.study.append(...studies.map((name) => new Option(name, name)));
  pane.choosers.study.addEventListener("change", (event) => {
    const cell = lab.index.cells.find((each) => each.study === event.target.value);
    lab.choose(pane, cell, lab.firstRun(cell));
  });
  pane.choosers.cell.addEventListener("change", (event) => {
    const cell = lab.find(pane.cell.study, event.target.value);
    lab.choose(pane, cell, lab.firstRun(cell));
  });
  pane.choosers.run.addEventListener("change", (event) => {
    const { value } = event.target;
    lab.choose(pane, pane.cell, value === lab.MEAN ? value : Number(value));
  });
  const resized = new ResizeObserver(() => {
    for (const chart of pane.charts) {
      const width = chart.root.parentElement.clientWidth;
      if (width && width !== chart.width) chart.setSize({ width, height: HEIGHT_PX });
    }
  });
  for (const host of [pane.chartsHost, document.getElementById("overlaid-charts")]) resized.observe(host);
  return pane;
};

// Show a run in a pane; `jump` brings the pane into view.
lab.choose = async (pane, cell, number, jump = false) => {
  pane.cell = cell;
  pane.number = number;
  if (pane.key === "b") lab.setCompare(true);
  lab.fillChoosers(pane);
  lab.drawAxes(pane);
  lab.showRun(pane);
  lab.writeAddress();
  const asked = `${cell.study}/${cell.cell}/${number}`;
  pane.asked = asked;
  const run = await (number === lab.MEAN ? lab.average(cell) : lab.series(cell, number));
  if (pane.asked !== asked) return; // the user chose another run meanwhile
  pane.run = run;
  lab.window = null;
  lab.showSeries(pane);
  lab.drawAll();
  pane.root.dataset.shown = asked;
  if (jump) pane.root.scrollIntoView({ block: "start" });
};

// Draw both panes: in an overlay, each depends on the other.
lab.drawAll = () => {
  document.getElementById("overlaid-charts").replaceChildren();
  for (const pane of lab.panes) lab.drawCharts(pane);
  lab.redraw();
};

lab.fillChoosers = (pane) => {
  const { study, cell, run } = pane.choosers;
  study.value = pane.cell.study;
  const blocks = Map.groupBy
    ? Map.groupBy(lab.index.cells.filter((each) => each.study === pane.cell.study), (each) => each.block)
    : new Map([["cells", lab.index.cells.filter((each) => each.study === pane.cell.study)]]);
  cell.replaceChildren(...[...blocks].map(([block, cells]) =>
    lab.make("optgroup", { label: block }, ...cells.map((each) => new Option(each.words, each.cell)))));
  cell.value = pane.cell.cell;
  const count = lab.averaged(pane.cell).length;
  const mean = count > 1 ? [new Option(`mean of ${count}`, lab.MEAN)] : [];
  run.replaceChildren(...mean, ...pane.cell.runs.map((each, at) => {
    const state = each.valid ? "" : ", invalid";
    return new Option(`${at}${state}${each.series < 0 ? ", not drawn" : ""}`, at);
  }));
  run.value = pane.number;
};

// Summarise the mean of a cell's replicates like a run.
const meanOfCell = (cell) => {
  const valid = lab.averaged(cell).map((at) => cell.runs[at].summary);
  const names = [...new Set(valid.flatMap((summary) => Object.keys(summary)))].sort();
  const of = (name) => valid.map((summary) => summary[name]).filter((value) => value !== undefined);
  return { valid: true, summary: Object.fromEntries(names.map((name) => [name, lab.mean(of(name))])), files: [], count: valid.length };
};

// State the main numbers of a run.
const ANSWER = ["rtt_loaded_ms", "queue_mean_packets", "retransmits"];
lab.answer = ({ valid, summary }) => {
  const metric = lab.index.metrics.find((name) => name in summary);
  const names = valid ? [metric, ...ANSWER].filter((name) => name in summary) : [];
  const parts = names.map((key) => {
    const [label, unit] = lab.index.labels[key];
    return `${label} ${lab.number(summary[key])} ${unit}`.trim();
  });
  return parts.join(", ");
};

lab.showRun = (pane) => {
  const { cell, number, root } = pane;
  const run = number === lab.MEAN ? meanOfCell(cell) : cell.runs[number];
  const verdict = root.querySelector(".verdict");
  verdict.classList.toggle("invalid", !run.valid);
  const known = `Replicate ${number} of ${cell.runs.length}, seed ${run.seed}`;
  const drawn = run.series < 0 ? " Its series are not on this page." : "";
  const mean = `Mean of ${run.count} valid replicates; the band shows the lowest and the highest of them in each slice.`;
  verdict.textContent = number === lab.MEAN ? mean : (run.valid ? `${known}: valid.` : `${known}: INVALID, enters no statistic: ${run.reasons.join("; ")}.`) + drawn;
  root.querySelector(".answer").textContent = lab.answer(run);
  root.querySelector(".numbers").replaceChildren(...Object.entries(run.valid ? run.summary : {}).map(([key, value]) => {
    const { name, unit } = lab.key(key);
    const shown = lab.make("dd", { textContent: `${lab.number(value)} ${unit}` });
    return lab.make("div", {}, lab.make("dt", { textContent: name }), shown);
  }));
  root.querySelector(".condition").textContent = `Condition: ${Object.entries(cell.condition).map(([axis, value]) => {
    const { name, unit } = lab.key(axis);
    return `${name} ${value} ${unit}`.trim();
  }).join(", ")}`;
  const folder = [cell.study, cell.cell, ...(number === lab.MEAN ? [] : [number])].join("/");
  const link = (file) => lab.make("a", { href: `${lab.index.cells_folder}/${folder}/${file}`, textContent: file });
  root.querySelector(".files").replaceChildren("Files: ", ...run.files.flatMap((file) => [link(file), " "]));
  const path = `${lab.index.cells_path}/${folder}`;
  const again = number === lab.MEAN ? [] : [`.venv/bin/losslab rerun ${path}`];
  root.querySelector(".commands").textContent = [...again, `.venv/bin/losslab plot ${path}`].join("\n");
};

// Say what limited the first flow of the drawn run, and how to repeat the run, or each run of a mean.
lab.showSeries = ({ root, run, cell, number }) => {
  const shares = Object.entries(run?.limits ?? {}).map(([name, percent]) => [name, Math.round(percent)]);
  const causes = shares.filter(([, percent]) => percent > 0).map(([name, percent]) => `${name} ${percent} %`);
  const limited = causes.length ? [`What limited the flow, in percent of the time: ${causes.join(", ")}.`] : [];
  root.querySelector(".limits").textContent = [...limited, ...(run?.warnings ?? []).map((text) => `Warning: ${text}.`)].join(" ");
  if (run) document.getElementById("slices").textContent = run.slices;
  const numbers = number === lab.MEAN ? lab.averaged(cell) : [number];
  const lines = (run?.sha256 ?? []).flatMap((digest, at) => {
    const seeded = cell.command.replace(`--seed ${cell.runs[0].seed} `, `--seed ${cell.runs[numbers[at]].seed} `);
    return [`${seeded.replace(/my-run$/, `run-${numbers[at]}`)} && cat run-${numbers[at]}/*.csv | sha256sum`, `# ${digest}`];
  });
  root.querySelector(".repeat").hidden = !cell.command || !lines.length;
  root.querySelector(".repeat pre").textContent = lines.join("\n");
};

lab.setCompare = (on) => {
  document.getElementById("compare").checked = on;
  document.getElementById("panes").classList.toggle("two", on);
  lab.panes[1].root.hidden = !on;
  if (!on) lab.setOverlay(false);
};

lab.setOverlay = (on) => {
  document.getElementById("overlay").checked = on;
};

lab.toggleOverlay = (on) => {
  lab.setOverlay(on);
  if (on && !lab.panes[1].cell) lab.toggleCompare(true);
  else lab.drawAll();
  lab.writeAddress();
};

lab.toggleCompare = (on) => {
  const [first, second] = lab.panes;
  lab.setCompare(on);
  if (on) {
    const partner = lab.partner(first.cell);
    lab.choose(second, partner, first.number === lab.MEAN ? lab.meanRun(partner) : lab.firstRun(partner));
  } else {
    second.run = null;
    second.cell = null;
    lab.drawAll();
    lab.writeAddress();
  }
};

// Choose the cell to compare with: the same condition with another algorithm, or another cell of the block.
lab.partner = (cell) => {
  const others = lab.index.cells.filter((each) => each !== cell && each.study === cell.study && each.block === cell.block);
  const same = (each) => lab.index.axes.every(({ name }) => name === "algorithm" || each.condition[name] === cell.condition[name]);
  return others.find(same) ?? others[0] ?? cell;
};

lab.writeAddress = () => {
  const shown = lab.panes.filter((pane) => pane.cell);
  const words = shown.map((pane) => `${pane.key}=${pane.cell.study}/${pane.cell.cell}/${pane.number}`);
  if (document.getElementById("overlay").checked) words.push("view=overlay");
  history.replaceState(null, "", `#${words.join("&")}`);
};

// Show the runs or the study in the address: `#a=STUDY/CELL/REPLICATE&b=...`, `#study=STUDY`.
lab.readAddress = () => {
  const named = new URLSearchParams(location.hash.slice(1));
  const study = named.get("study");
  if (study) {
    document.getElementById("filter-study").value = study;
    lab.drawRows();
  }
  const lesson = lab.index.lessons.find(({ block }) => block === named.get("lesson"));
  if (lesson) {
    lab.openLesson(lesson);
    document.getElementById(`lesson-${lesson.block}`).scrollIntoView();
    return;
  }
  let shown = false;
  for (const pane of lab.panes) {
    const [of, name, number] = (named.get(pane.key) ?? "").split("/");
    const cell = lab.find(of, name);
    if (!cell) continue;
    const there = Number(number) < cell.runs.length && number !== undefined && number !== "";
    const other = number === lab.MEAN ? lab.meanRun(cell) : lab.firstRun(cell);
    lab.choose(pane, cell, there ? Number(number) : other);
    shown = shown || pane.key === "a";
  }
  if (named.get("view") === "overlay") lab.setOverlay(true);
  const [preset] = lab.available();
  if (!shown && !study && preset && !lab.panes[0].cell) {
    lab.openPreset(preset);
    return;
  }
  const first = lab.index.cells.find((cell) => !study || cell.study === study) ?? lab.index.cells[0];
  if (!shown && first && (study || !lab.panes[0].cell)) lab.choose(lab.panes[0], first, lab.firstRun(first));
};

lab.setTheme = (theme) => {
  document.documentElement.dataset.theme = theme;
  document.getElementById("theme").textContent = theme === "dark" ? "Light" : "Dark";
  lab.drawAll();
};

lab.step = { in: [0.25, 0.75], out: [-0.5, 1.5], left: [-0.5, 0.5], right: [0.5, 1.5] };

lab.start = async () => {
  await lab.open();
  const { cells } = lab.index;
  const runs = cells.flatMap((cell) => cell.runs);
  const invalid = runs.filter((run) => !run.valid).length;
  document.getElementById("campaign").textContent =
    `${cells.length} cells, ${runs.length} runs, ${invalid} of them invalid; ${runs.filter((run) => run.series >= 0).length} drawn here.`;
  lab.panes = [lab.pane("a", "A"), lab.pane("b", "B")];
  lab.setCompare(false);
  lab.setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  document.getElementById("theme").addEventListener("click", () => lab.setTheme(lab.dark() ? "light" : "dark"));
  document.getElementById("compare").addEventListener("change", (event) => lab.toggleCompare(event.target.checked));
  document.getElementById("overlay").addEventListener("change", (event) => lab.toggleOverlay(event.target.checked));
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => {
      const [from, to] = lab.span();
      const [begin, end] = lab.step[button.dataset.zoom] ?? [-Infinity, Infinity];
      lab.zoom(...(Number.isFinite(end) ? [from + (to - from) * begin, from + (to - from) * end] : [0, Infinity]));
    });
  }
  const studies = [...new Set(cells.map((cell) => cell.study))];
  document.getElementById("filter-study").append(new Option("all", ""), ...studies.map((name) => new Option(name, name)));
  for (const id of ["filter", "filter-study", "filter-invalid"]) {
    document.getElementById(id).addEventListener("input", lab.drawRows);
  }
  document.getElementById("more").addEventListener("click", ({ target }) => {
    target.dataset.all = "yes";
    lab.drawRows();
  });
  for (const part of ["cells", "lessons"]) {
    document.getElementById(`to-${part}`).addEventListener("click", (event) => {
      event.preventDefault(); // the address already has the shown runs
      document.getElementById(part).scrollIntoView();
      document.getElementById(part).focus();
    });
  }
  lab.drawPresets();
  lab.drawLessons();
  lab.drawHead();
  lab.drawRows();
  lab.readAddress();
  addEventListener("hashchange", lab.readAddress);
};

lab.start().catch((error) => {
  document.getElementById("campaign").textContent = `This browser cannot read the runs (${error.message}); use the CSV files in results/cells instead.`;
  throw error;
});
