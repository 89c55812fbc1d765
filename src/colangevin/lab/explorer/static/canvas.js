// Canvases: sharp on every screen, in the colours of the page.

export const FONT = "11.5px system-ui, sans-serif";

let palette = null;

export function colours() {
  if (!palette) {
    const style = getComputedStyle(document.documentElement);
    palette = {};
    for (const name of ["ink", "soft", "card", "grid", "rule", "zero", "one", "neutral", "run-a", "run-b", "accent", "focus"]) {
      palette[name] = style.getPropertyValue(`--${name}`).trim();
    }
    palette.a = palette["run-a"];
    palette.b = palette["run-b"];
  }
  return palette;
}

export function forgetColours() {
  palette = null;
}

export function rgb(hex) {
  return [1, 3, 5].map((place) => Number.parseInt(hex.slice(place, place + 2), 16));
}

/** A context whose unit is a CSS pixel, cleared. */
export function begin(canvas) {
  const ratio = Math.min(devicePixelRatio || 1, 2);
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = FONT;
  return { context, width, height };
}

export function bytes(text) {
  const raw = atob(text);
  const found = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i += 1) found[i] = raw.charCodeAt(i);
  return found;
}

export function note(context, text, width, height) {
  context.fillStyle = colours().soft;
  context.textAlign = "center";
  context.textBaseline = "middle";
  const words = text.split(" ");
  const lines = [""];
  for (const word of words) {
    const longer = `${lines[lines.length - 1]} ${word}`.trim();
    if (context.measureText(longer).width > width - 30 && lines[lines.length - 1]) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  lines.forEach((line, i) => context.fillText(line, width / 2, height / 2 + (i - (lines.length - 1) / 2) * 17));
}
