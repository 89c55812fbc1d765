// What has been shown: frames for the slider, and curves. Both have a bounded size.

const MOST_FRAMES = 300;
const MOST_ROWS = 500;

export class History {
  constructor() {
    this.clear();
  }

  clear() {
    this.frames = [];
    this.rows = [];
    this.every = 0;
    this.rowEvery = 0;
  }

  add(frame) {
    const last = this.frames[this.frames.length - 1];
    if (last && last.steps === frame.steps) {
      this.frames[this.frames.length - 1] = frame;
    } else {
      this.frames.push(frame);
    }
    if (this.frames.length > MOST_FRAMES) this.frames = this.frames.filter((_, i, all) => i % 2 === 0 || i > all.length - 20);
    this.addRow(frame);
  }

  addRow(frame) {
    const row = { steps: frame.steps, runs: {} };
    for (const [letter, run] of Object.entries(frame.runs)) row.runs[letter] = { scores: run.scores, groups: run.groups };
    const last = this.rows[this.rows.length - 1];
    if (last && last.steps === frame.steps) this.rows[this.rows.length - 1] = row;
    else this.rows.push(row);
    if (this.rows.length > MOST_ROWS) this.rows = this.rows.filter((_, i, all) => i % 2 === 0 || i > all.length - 20);
  }

  /** Steps, mean and range over the seeds of one score, up to a step. */
  curve(letter, place, until) {
    const line = { steps: [], values: [], low: [], high: [] };
    for (const row of this.rows) {
      if (row.steps > until || !row.runs[letter]) continue;
      const good = row.runs[letter].scores[place].filter((value) => value !== null);
      line.steps.push(row.steps);
      line.values.push(good.length ? good.reduce((sum, v) => sum + v, 0) / good.length : null);
      line.low.push(good.length ? Math.min(...good) : 0);
      line.high.push(good.length ? Math.max(...good) : 0);
    }
    return line;
  }

  /** One reading of a parameter group over the steps. */
  reading(letter, index, name, until) {
    const line = { steps: [], values: [] };
    for (const row of this.rows) {
      if (row.steps > until) continue;
      line.steps.push(row.steps);
      line.values.push(row.runs[letter]?.groups[index]?.[name] ?? null);
    }
    return line;
  }

  /** The mean of the last readings: a single one scatters. */
  mean(letter, index, name, until, count = 30) {
    const good = this.reading(letter, index, name, until).values.filter((v) => v !== null).slice(-count);
    return good.length ? good.reduce((sum, v) => sum + v, 0) / good.length : null;
  }
}
