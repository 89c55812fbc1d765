// Curves over steps, histograms, and weights on their constraint.

import { begin, bytes, colours, note } from "./canvas.js";
import { shown } from "./controls.js";

const MOST_LAYERS = 4;
const PAD = { left: 46, right: 10, top: 8, bottom: 22 };

function ticks(low, high, log) {
  if (log) {
    const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
    const every = Math.max(1, Math.ceil((last - first - 1) / 5));
    const inside = (v) => v >= low * 0.999 && v <= high * 1.001;
    for (const digits of [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9]]) {
      const found = [];
      for (let p = first; p <= last; p += every) found.push(...digits.map((d) => d * 10 ** p).filter(inside));
      if (found.length > 2) return found.length > 6 ? found.filter((_, i) => i % 2 === 0) : found;
    }
    return [low, Math.sqrt(low * high), high];
  }
  const raw = (high - low) / 4, size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((k) => k * size).find((k) => k >= raw);
  const found = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-6; v += step) found.push(Number(v.toPrecision(12)));
  return found;
}

function frame(context, width, height, x, y, format) {
  const { grid, soft } = colours();
  context.strokeStyle = grid;
  context.fillStyle = soft;
  context.lineWidth = 1;
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const value of ticks(y.low, y.high, y.log)) {
    const at = y.place(value);
    context.beginPath();
    context.moveTo(PAD.left, at);
    context.lineTo(width - PAD.right, at);
    context.stroke();
    context.fillText(format(value), PAD.left - 6, at);
  }
  context.textBaseline = "alphabetic";
  context.textAlign = "center";
  for (const value of ticks(x.low, x.high, false).slice(0, 6)) {
    const text = value >= 1e6 ? `${value / 1e6}M` : value >= 1e4 ? `${value / 1e3}k` : String(value);
    context.fillText(text, Math.min(width - 18, x.place(value)), height - 6);
  }
}

function axis(values, log, start, end, fixed) {
  let low = fixed?.[0] ?? Infinity, high = fixed?.[1] ?? -Infinity;
  if (!fixed) {
    for (const value of values) {
      if (value === null || !Number.isFinite(value) || (log && value <= 0)) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    if (low > high) return null;
    if (log) {
      if (high / low < 1.5) { low /= 1.3; high *= 1.3; } else { low /= 1.1; high *= 1.1; }
    } else if (high === low) { low -= 0.5; high += 0.5; }
  }
  const scale = (v) => (log ? Math.log(Math.max(v, low)) : v);
  const from = scale(low), to = scale(high);
  return { low, high, log, place: (v) => start + ((scale(v) - from) / (to - from || 1)) * (end - start) };
}

/**
 * Curves. A line is {steps, values, low?, high?, colour, dash}; low and high make a band.
 */
export function drawCurves(canvas, lines, { log = false, fixed = null, empty = "", until = null, format = shown } = {}) {
  const { context, width, height } = begin(canvas);
  const y = axis(lines.flatMap((line) => [...line.values, ...(line.low ?? []), ...(line.high ?? [])]), log, height - PAD.bottom, PAD.top, fixed);
  const last = Math.max(1, ...lines.map((line) => line.steps[line.steps.length - 1] ?? 0), until ?? 0);
  if (!y || !lines.length) return note(context, empty || "Press play.", width, height);
  const x = axis([], false, PAD.left, width - PAD.right, [0, last]);
  frame(context, width, height, x, y, format);
  context.save();
  context.beginPath();
  context.rect(PAD.left, 0, width - PAD.left, height - PAD.bottom + 1);
  context.clip();
  for (const line of lines) {
    if (line.low) {
      context.globalAlpha = 0.16;
      context.fillStyle = line.colour;
      context.beginPath();
      line.steps.forEach((step, i) => context.lineTo(x.place(step), y.place(line.high[i])));
      for (let i = line.steps.length - 1; i >= 0; i -= 1) context.lineTo(x.place(line.steps[i]), y.place(line.low[i]));
      context.fill();
      context.globalAlpha = 1;
    }
    context.strokeStyle = line.colour;
    context.lineWidth = line.dash ? 1.5 : 2;
    context.setLineDash(line.dash ?? []);
    context.beginPath();
    let pen = false;
    line.steps.forEach((step, i) => {
      const value = line.values[i];
      if (value === null || (log && value <= 0)) { pen = false; return; }
      if (pen) context.lineTo(x.place(step), y.place(value));
      else context.moveTo(x.place(step), y.place(value));
      pen = true;
    });
    context.stroke();
    if (line.steps.length === 1 && line.values[0] !== null) {
      context.fillStyle = line.colour;
      context.fillRect(x.place(line.steps[0]) - 2, y.place(line.values[0]) - 2, 4, 4);
    }
  }
  context.setLineDash([]);
  context.restore();
  return undefined;
}

/** Histograms: one row per layer, one column per run. */
export function drawWeights(canvas, runs) {
  const letters = Object.keys(runs);
  const all = Object.keys(runs[letters[0]]?.layers ?? {});
  const layers = all.length > MOST_LAYERS ? [all[0], all[1], ...all.slice(2 - MOST_LAYERS)] : all;
  const { context, width, height } = begin(canvas);
  const { soft, ink, grid } = colours();
  if (!layers.length) return note(context, "Press play.", width, height);
  const left = 58, gap = 14;
  const column = (width - left - gap * (letters.length - 1)) / letters.length;
  const row = height / layers.length;
  layers.forEach((title, i) => {
    const top = i * row, base = top + row - 15, reach = Math.min(row - 22, 150);
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillStyle = soft;
    context.fillText(title, 0, top + row / 2 - 5);
    letters.forEach((letter, j) => {
      const own = runs[letter].layers[title];
      const x = left + j * (column + gap), counts = bytes(own.counts), bar = column / counts.length;
      context.fillStyle = colours()[letter];
      counts.forEach((count, k) => {
        const tallness = count ? Math.max(1, (count / 255) * reach) : 0;
        context.fillRect(x + k * bar, base - tallness, Math.max(1, bar - 0.7), tallness);
      });
      context.fillStyle = grid;
      context.fillRect(x, base, column, 1);
      if (own.bound !== null && own.reach) {
        context.strokeStyle = ink;
        context.setLineDash([3, 3]);
        for (const sign of [-1, 1]) {
          const at = x + column / 2 + (sign * own.bound / own.reach) * (column / 2);
          context.beginPath();
          context.moveTo(at, base - reach);
          context.lineTo(at, base);
          context.stroke();
        }
        context.setLineDash([]);
      }
      context.fillStyle = soft;
      context.textBaseline = "alphabetic";
      context.textAlign = "left";
      context.fillText(own.reach ? `−${shown(own.reach)}` : "not finite", x, base + 12);
      context.textAlign = "right";
      if (own.reach) context.fillText(shown(own.reach), x + column, base + 12);
    });
  });
  return undefined;
}

function drawCircle(context, own, colour, x, y, size) {
  const { ink, soft, grid } = colours();
  const middle = [x + size / 2, y + size / 2], radius = size / 2 - 18;
  context.strokeStyle = grid;
  context.beginPath();
  context.moveTo(middle[0] - radius - 8, middle[1]);
  context.lineTo(middle[0] + radius + 8, middle[1]);
  context.moveTo(middle[0], middle[1] - radius - 8);
  context.lineTo(middle[0], middle[1] + radius + 8);
  context.stroke();
  context.strokeStyle = soft;
  context.beginPath();
  context.arc(...middle, radius, 0, 2 * Math.PI);
  context.stroke();
  const values = bytes(own.values), half = values.length / 2;
  context.fillStyle = colour;
  context.globalAlpha = half > 60 ? 0.5 : 0.85;
  for (let i = 0; i < half; i += 1) {
    const across = values[i] / 127.5 - 1, up = values[half + i] / 127.5 - 1;
    context.beginPath();
    context.arc(middle[0] + across * radius, middle[1] - up * radius, 2.6, 0, 2 * Math.PI);
    context.fill();
  }
  context.globalAlpha = 1;
  context.fillStyle = ink;
  context.textBaseline = "middle";
  context.textAlign = "left";
  context.fillText(own.kind === "circle" ? "θ" : "‖w‖", middle[0] + radius + 4, middle[1] - 9);
  context.textAlign = "center";
  context.fillText("ξ", middle[0] + 9, middle[1] - radius - 9);
  context.fillStyle = soft;
  context.fillText(`r = ${shown(own.radius)}`, middle[0], middle[1] + radius + 11);
}

function drawSingular(context, own, colour, x, y, wide, tall) {
  const { soft, ink, grid } = colours();
  const values = bytes(own.values), high = Math.max(1, own.largest) * 1.1;
  const base = y + tall - 20, top = y + 12, bar = (wide - 40) / values.length, left = x + 34;
  const place = (v) => base - (v / high) * (base - top);
  context.fillStyle = grid;
  context.fillRect(left, base, wide - 40, 1);
  context.fillStyle = colour;
  values.forEach((value, i) => {
    const size = (value / 255) * own.largest;
    context.fillRect(left + i * bar, place(size), Math.max(1, bar > 8 ? bar * 0.7 : bar - 0.6), base - place(size));
  });
  context.strokeStyle = ink;
  context.setLineDash([4, 3]);
  context.beginPath();
  context.moveTo(left, place(1));
  context.lineTo(left + wide - 40, place(1));
  context.stroke();
  context.setLineDash([]);
  context.fillStyle = soft;
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.fillText("1", left - 6, place(1));
  if (high > 1.6) context.fillText(shown(own.largest), left - 6, Math.min(place(own.largest), place(1) - 14));
  context.textAlign = "left";
  context.textBaseline = "alphabetic";
  if (wide > 230) context.fillText(`singular values, ${shown(own.smallest)} to ${shown(own.largest)}`, left, base + 15);
}

/** The weights of one layer on their constraint, one column per run that has one there. */
export function drawGeometry(canvas, runs) {
  const { context, width, height } = begin(canvas);
  const orthogonal = Object.values(runs).some((run) => run.geometry.kind === "orthogonal");
  const letters = Object.keys(runs).filter((letter) => orthogonal || runs[letter].geometry.kind !== "none");
  if (!letters.length) return note(context, "Press play.", width, height);
  const column = width / letters.length;
  letters.forEach((letter, i) => {
    const own = runs[letter].geometry, x = i * column;
    if (own.picture === "circle") {
      const size = Math.min(column, height);
      drawCircle(context, own, colours()[letter], x + (column - size) / 2, (height - size) / 2, size);
    } else if (own.picture === "singular") {
      drawSingular(context, own, colours()[letter], x, 0, column, height);
    }
  });
  return undefined;
}

/** A network whose lines are weights: full at the bound, and in another colour beyond it. */
export function drawNetwork(canvas, layers) {
  const { context, width, height } = begin(canvas);
  if (!layers) return note(context, "Press play.", width, height);
  const { zero, one, focus, ink } = colours();
  const counts = [layers[0].columns, ...layers.map((layer) => layer.rows)];
  const spot = (column, i) => [10 + (column * (width - 20)) / layers.length, ((i + 0.5) * height) / counts[column]];
  const lines = [];
  layers.forEach((layer, column) => {
    const values = bytes(layer.values);
    for (let to = 0; to < layer.rows; to += 1) {
      for (let from = 0; from < layer.columns; from += 1) {
        const value = 2 * (values[to * layer.columns + from] / 127.5 - 1);
        if (Math.abs(value) > 0.04) lines.push([column, from, to, value]);
      }
    }
  });
  lines.sort((p, q) => Math.abs(p[3]) - Math.abs(q[3]));
  for (const [column, from, to, value] of lines) {
    const size = Math.abs(value), beyond = size > 1.12; // recorded lines have few shades
    context.strokeStyle = beyond ? focus : value > 0 ? one : zero;
    context.globalAlpha = Math.min(1, 0.08 + 0.92 * size);
    context.lineWidth = beyond ? 2.2 : 0.4 + 1.4 * size;
    context.beginPath();
    context.moveTo(...spot(column, from));
    context.lineTo(...spot(column + 1, to));
    context.stroke();
  }
  context.globalAlpha = 1;
  context.fillStyle = ink;
  counts.forEach((count, column) => {
    for (let i = 0; i < count; i += 1) {
      context.beginPath();
      context.arc(...spot(column, i), count > 8 ? 2.2 : 3.2, 0, 2 * Math.PI);
      context.fill();
    }
  });
  return undefined;
}
