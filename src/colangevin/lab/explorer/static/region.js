// Decision regions with the points, large and small.

import { begin, bytes, colours, rgb } from "./canvas.js";

const PLACES = 4095;
const scratch = document.createElement("canvas");

function paint(text) {
  const values = bytes(text);
  const side = Math.round(Math.sqrt(values.length));
  scratch.width = side;
  scratch.height = side;
  const context = scratch.getContext("2d");
  const image = context.createImageData(side, side);
  const { zero, one, neutral } = colours();
  const ends = [rgb(zero), rgb(one)], middle = rgb(neutral);
  for (let i = 0; i < values.length; i += 1) {
    const value = values[i] / 127.5 - 1;
    const end = ends[value > 0 ? 1 : 0], share = Math.abs(value) ** 0.7 * 0.62;
    for (let c = 0; c < 3; c += 1) image.data[4 * i + c] = middle[c] + (end[c] - middle[c]) * share;
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return scratch;
}

function dots(context, points, width, height, size, ring) {
  const { zero, one, card } = colours();
  const fill = [zero, one];
  for (let i = 0; i < points.classes.length; i += 1) {
    const x = (points.places[2 * i] / PLACES) * width, y = (1 - points.places[2 * i + 1] / PLACES) * height;
    context.beginPath();
    context.arc(x, y, size, 0, 2 * Math.PI);
    context.fillStyle = fill[points.classes[i]];
    context.fill();
    if (ring) {
      context.lineWidth = Math.min(1.4, size * 0.4);
      context.strokeStyle = card;
      context.stroke();
    }
  }
}

/** Test points that the user has drawn: a ring each. */
function rings(context, points, width, height, size) {
  const { zero, one, card } = colours();
  for (let i = 0; i < points.classes.length; i += 1) {
    const x = (points.places[2 * i] / PLACES) * width, y = (1 - points.places[2 * i + 1] / PLACES) * height;
    context.beginPath();
    context.arc(x, y, size, 0, 2 * Math.PI);
    context.fillStyle = card;
    context.fill();
    context.lineWidth = 2.2;
    context.strokeStyle = [zero, one][points.classes[i]];
    context.stroke();
  }
}

/** One decision region; `problem` has the points, `cursor` the place of the keyboard's pen. */
export function drawRegion(canvas, text, problem, showTest, cursor = null) {
  const { context, width, height } = begin(canvas);
  context.imageSmoothingEnabled = true;
  context.imageSmoothingQuality = "high";
  if (text) context.drawImage(paint(text), 0, 0, width, height);
  if (!problem) return;
  const scale = Math.max(0.5, Math.min(1.25, width / 420));
  const drawn = problem.spec.data.kind === "drawn";
  if (showTest) {
    context.globalAlpha = drawn ? 1 : 0.55;
    if (drawn) rings(context, problem.test, width, height, 4.5 * scale);
    else dots(context, problem.test, width, height, 1.5 * scale, false);
    context.globalAlpha = 1;
  }
  const crowded = problem.train.classes.length > 400;
  dots(context, problem.train, width, height, (crowded ? 2.6 : 4) * scale, true);
  if (cursor) {
    context.strokeStyle = colours().focus;
    context.lineWidth = 1.5;
    const x = cursor[0] * width, y = cursor[1] * height;
    context.beginPath();
    context.moveTo(x - 9, y);
    context.lineTo(x + 9, y);
    context.moveTo(x, y - 9);
    context.lineTo(x, y + 9);
    context.stroke();
  }
}

/** A small region without points, for one seed. */
export function drawSmall(canvas, text) {
  const { context, width, height } = begin(canvas);
  context.imageSmoothingEnabled = true;
  context.drawImage(paint(text), 0, 0, width, height);
}
