// A recorded run: it plays a preset's pay-off in ten seconds, while the live training catches up.

import { History } from "./history.js";

const SECONDS = 10;
const find = (id) => document.getElementById(id);

const SCORES = { test_accuracy: ["accuracy", 3, (v) => `${(100 * v).toFixed(1)} %`], test_loss: ["loss", 1, (v) => v.toPrecision(3)] };

/** The scores that each run is ahead in. */
function grouped(ahead) {
  const found = {};
  for (const [score, letter] of Object.entries(ahead)) (found[letter] ??= []).push(score);
  return found;
}

/** What the recorded run has shown at its end: both numbers of both runs, and who is ahead. */
export function told({ frames, seeds }, preset) {
  const { runs, steps } = frames.at(-1);
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const numbers = Object.values(SCORES).map(([name, place, words]) =>
    `test ${name} ${Object.values(runs).map((run) => words(mean(run.scores[place]))).join(" against ")}`);
  const leads = Object.entries(grouped(preset.ahead)).map(([letter, own]) => {
    const names = own.map((score) => SCORES[score][0]).join(" and ");
    return letter === "neither" ? `the seeds differ in ${names}` : `${letter.toUpperCase()} is ahead in ${names} with every seed`;
  });
  return `Recorded, A against B at step ${steps.toLocaleString("en")}, mean of ${seeds.length} seeds: ${[...numbers, ...leads].join(", ")}.`;
}

export class Opening {
  /** `show(frame, history)` is called for each recorded frame, `over()` when it ends. */
  constructor(load, show, over) {
    Object.assign(this, { load, show, over, records: {}, timer: null, name: null });
  }

  get playing() {
    return this.timer !== null;
  }

  /** Load a record, which also has the numbers for the story. */
  async record(name) {
    this.records[name] ??= await this.load(name);
    return this.records[name];
  }

  async play(name) {
    this.stop(false);
    const { frames } = await this.record(name);
    const history = new History();
    let place = 0;
    this.name = name;
    const next = () => {
      if (place >= frames.length) return this.stop();
      history.add(frames[place]);
      find("opening-progress").value = (place + 1) / frames.length;
      this.show(frames[place], history);
      place += 1;
      return undefined;
    };
    this.timer = setInterval(next, (SECONDS * 1000) / frames.length);
    document.body.dataset.opening = name;
    this.label();
    next();
  }

  stop(tell = true) {
    if (!this.playing) return;
    clearInterval(this.timer);
    this.timer = null;
    document.body.dataset.opening = "";
    this.label();
    if (tell) this.over();
  }

  label() {
    find("opening-progress").hidden = !this.playing;
    find("opening-words").textContent = this.playing ? "recorded" : "";
    find("opening-button").textContent = this.playing ? "Go live" : "▶ Recorded run";
  }
}
