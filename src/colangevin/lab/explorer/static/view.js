// From a frame to the page: pictures, numbers and the table.

import { colours, forgetColours } from "./canvas.js";
import { drawCurves, drawGeometry, drawNetwork, drawWeights } from "./charts.js";
import { shown } from "./controls.js";
import { drawRegion, drawSmall } from "./region.js";

const find = (id) => document.getElementById(id);
const LETTERS = ["a", "b"];
const KINDS = {
  none: "free", circle: "circle", sphere: "max-norm", unit: "unit-norm", orthogonal: "orthogonal", norm: "whole norm",
};
const mean = (values) => {
  const good = values.filter((value) => value !== null);
  return good.length ? good.reduce((sum, value) => sum + value, 0) / good.length : null;
};
const percent = (value) => (value === null ? "–" : `${(100 * value).toFixed(1)} %`);
const number = (value) => (value === null || value === undefined ? "–" : value.toPrecision(3));
const put = (id, text) => { if (find(id).textContent !== text) find(id).textContent = text; };

export class View {
  constructor(history, look) {
    this.history = history;
    this.look = look;
    this.problem = null;
    this.frame = null;
    this.cursor = null;
    this.said = 0;
    addEventListener("resize", () => this.redraw());
  }

  /** New data: what was shown is gone. */
  begin(problem) {
    this.problem = problem;
    this.frame = null;
    const list = find("layer");
    if ([...list.options].map((o) => o.value).join() !== problem.layers.join()) {
      list.replaceChildren(...problem.layers.map((name) => new Option(name, name)));
    }
    const two = Boolean(problem.spec.b);
    find("run-b").hidden = !two;
    for (const letter of LETTERS) this.multiples(letter, letter === "b" && !two ? [] : problem.seeds);
  }

  multiples(letter, seeds) {
    const place = find(`multiples-${letter}`);
    if (seeds.length < 2) return place.replaceChildren();
    const buttons = seeds.map((seed, index) => {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.member = index;
      button.setAttribute("aria-label", `Run ${letter.toUpperCase()}, seed ${seed}: show this one large`);
      const canvas = document.createElement("canvas");
      button.append(canvas, Object.assign(document.createElement("span"), { textContent: `seed ${seed}` }));
      button.addEventListener("click", () => this.look({ member: index }));
      return button;
    });
    const all = Object.assign(document.createElement("button"), { type: "button", textContent: "mean", className: "mean" });
    all.dataset.member = -1;
    all.setAttribute("aria-label", `Run ${letter.toUpperCase()}: show the mean prediction of all seeds`);
    all.addEventListener("click", () => this.look({ member: -1 }));
    return place.replaceChildren(...buttons, all);
  }

  show(frame) {
    this.frame = frame;
    this.redraw();
  }

  recolour() {
    forgetColours();
    this.redraw();
  }

  redraw() {
    const { frame, problem } = this;
    if (!problem) return;
    const runs = frame?.runs ?? {};
    const test = find("show-test").checked;
    for (const letter of LETTERS) {
      if (!find(`run-${letter}`).hidden) drawRegion(find(`region-${letter}`), runs[letter]?.region, problem, test, this.cursor);
    }
    for (const letter of LETTERS) {
      if (!find(`run-${letter}`).hidden) drawNetwork(find(`network-${letter}`), runs[letter]?.network);
    }
    put("test-words", problem.spec.data.kind === "drawn" ? "rings" : "small");
    if (!frame) return;
    put("steps", frame.steps.toLocaleString("en"));
    for (const [letter, run] of Object.entries(runs)) this.numbers(letter, run, frame.member);
    this.curves(frame.steps, Object.keys(runs));
    drawWeights(find("chart-weights"), runs);
    const held = Object.values(runs).some((run) => Object.values(run.layers).some((layer) => layer.kind !== "none"));
    find("card-geometry").hidden = !held;
    if (held) drawGeometry(find("chart-geometry"), runs);
    this.networkWords(runs);
    this.readings(frame.steps, runs);
    this.describe(frame);
  }

  numbers(letter, run, member) {
    const [train, test, , accuracy] = run.scores.map(mean);
    put(`test-accuracy-${letter}`, percent(accuracy));
    put(`test-loss-${letter}`, number(test));
    put(`train-loss-${letter}`, number(train));
    Object.assign(find(`run-${letter}`).dataset, { testAccuracy: accuracy ?? "", testLoss: test ?? "", trainLoss: train ?? "" });
    find(`multiples-${letter}`).querySelectorAll("button").forEach((button) => {
      const index = Number(button.dataset.member);
      button.setAttribute("aria-pressed", String(index === member));
      if (index < 0) return;
      button.querySelector("span").textContent = `${this.problem.seeds[index]}: ${Math.round(100 * (run.scores[3][index] ?? 0))} %`;
      if (run.small[index]) drawSmall(button.querySelector("canvas"), run.small[index]);
    });
    const gone = run.stopped.map((why, i) => why && `Seed ${this.problem.seeds[i]} has stopped: ${why}.`).filter(Boolean);
    if (run.alone && run.stopped.length > 1) gone.push(`Its seeds are trained one by one, which is slower: ${run.alone}.`);
    find(`stopped-${letter}`).hidden = !gone.length;
    put(`stopped-${letter}`, gone.join(" "));
  }

  networkWords(runs) {
    const layers = Object.values(runs)[0].network;
    const fewer = layers.some((layer) => layer.rows < layer.of[0]) ? `${layers[0].rows} of ${layers[0].of[0]} nodes drawn; ` : "";
    const bounded = Object.values(runs).some((run) => Object.values(run.layers).some((layer) => layer.kind === "circle"));
    put("network-words", `Network: ${fewer}${bounded ? "lines are full at the bound, red beyond it" : "lines are full at the largest weight"}`);
  }

  curves(until, letters) {
    const lines = (train, test) => letters.flatMap((letter) => {
      const colour = colours()[letter], first = this.history.curve(letter, train, until);
      return [
        { steps: first.steps, values: first.values, colour, dash: [4, 3] },
        { ...this.history.curve(letter, test, until), colour },
      ];
    });
    drawCurves(find("chart-loss"), lines(0, 1), { log: true });
    const accuracy = lines(2, 3);
    const lowest = Math.min(0.5, ...accuracy.flatMap((line) => line.values.filter((value) => value !== null)));
    drawCurves(find("chart-accuracy"), accuracy, { fixed: [Math.floor(lowest * 10) / 10, 1], format: (v) => `${Math.round(100 * v)} %` });
  }

  readings(until, runs) {
    const heat = [], broken = [], rows = [];
    for (const [letter, run] of Object.entries(runs)) {
      run.groups.forEach((group, index) => {
        const colour = this.shade(letter, index, run.groups.length);
        const kinetic = this.history.reading(letter, index, "kinetic", until);
        if (kinetic.values.some((v) => v > 0)) {
          heat.push({ ...kinetic, colour });
          if (group.target > 0) heat.push({ ...this.history.reading(letter, index, "target", until), colour, dash: [4, 3] });
        }
        const violation = this.history.reading(letter, index, "violation", until);
        if (violation.values.some((v) => v > 0)) broken.push({ ...violation, colour });
        if (group.friction !== null) {
          const friction = this.history.reading(letter, index, "friction", until);
          broken.push({ steps: friction.steps, values: friction.values.map((v) => (v === null ? null : Math.abs(v))), colour, dash: [1.5, 3] });
        }
        rows.push([letter.toUpperCase(), group.name, number(this.history.mean(letter, index, "kinetic", until)), shown(group.target), number(group.friction), group.violation > 0 ? group.violation.toExponential(1) : "0"]);
      });
    }
    // Cards without anything to show are not there.
    find("card-temperature").hidden = !heat.length;
    find("card-violation").hidden = !broken.length;
    find("card-groups").hidden = !rows.length;
    if (heat.length) drawCurves(find("chart-temperature"), heat, { log: true });
    if (broken.length) drawCurves(find("chart-violation"), broken, { log: true });
    this.table(rows);
  }

  /** Colours of groups of one run: the run's own, lighter and lighter. */
  shade(letter, index, count) {
    const share = count > 1 ? 100 - (55 * index) / (count - 1) : 100;
    return share === 100 ? colours()[letter] : `color-mix(in srgb, ${colours()[letter]} ${share}%, ${colours().ink})`;
  }

  table(rows) {
    const body = find("groups").tBodies[0];
    while (body.rows.length > rows.length) body.deleteRow(-1);
    rows.forEach((row, i) => {
      const line = body.rows[i] ?? body.insertRow();
      row.forEach((text, j) => {
        const cell = line.cells[j] ?? line.insertCell();
        if (cell.textContent !== text) cell.textContent = text;
      });
    });
  }

  /** Words for those who do not see the pictures; not at every frame. */
  describe(frame) {
    const orthogonal = Object.values(frame.runs).some((run) => run.geometry.kind === "orthogonal");
    const words = Object.entries(frame.runs).map(([letter, run]) => {
      const kind = run.geometry.kind;
      const note = run.geometry.picture === "singular" && (kind !== "none" || orthogonal)
        ? `${letter.toUpperCase()}: ${KINDS[kind]}, singular values ${shown(run.geometry.smallest ?? 0)} to ${shown(run.geometry.largest ?? 0)}`
        : `${letter.toUpperCase()}: ${KINDS[kind]}`;
      return note;
    });
    put("geometry-note", words.join(" · "));
    const now = Date.now();
    if (now - this.said < 1000) return;
    this.said = now;
    for (const [letter, run] of Object.entries(frame.runs)) {
      const [train, test, , accuracy] = run.scores.map(mean);
      find(`region-${letter}`).setAttribute("aria-label", `Decision region of run ${letter.toUpperCase()} at step ${frame.steps}: test accuracy ${percent(accuracy)}, test loss ${number(test)}, training loss ${number(train)}`);
    }
  }
}
