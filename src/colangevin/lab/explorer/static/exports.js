// The training as a picture, a record and a file.

import { colours } from "./canvas.js";

export function save(name, content, type) {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** All pictures of the page that are visible, on one canvas. */
export function picture(title, lines) {
  const { card, ink, soft } = colours();
  const regions = [...document.querySelectorAll(".region")].filter((canvas) => canvas.offsetParent);
  const charts = [...document.querySelectorAll(".charts canvas")].filter((canvas) => canvas.offsetParent);
  const side = 560, pad = 28, columns = Math.max(2, regions.length), wide = columns * (side + pad) + pad;
  const small = (wide - pad) / 3 - pad;
  const heights = charts.map((canvas) => Math.max(180, (canvas.clientHeight / canvas.clientWidth) * small));
  const rows = [];
  for (let i = 0; i < charts.length; i += 3) rows.push(Math.max(...heights.slice(i, i + 3)) + 44);
  const top = 64 + lines.length * 22;
  const sheet = document.createElement("canvas");
  sheet.width = wide;
  sheet.height = top + side + pad + rows.reduce((sum, row) => sum + row, 0) + pad;
  const context = sheet.getContext("2d");
  context.fillStyle = card;
  context.fillRect(0, 0, sheet.width, sheet.height);
  context.fillStyle = ink;
  context.font = "600 24px system-ui, sans-serif";
  context.fillText(title, pad, 42);
  context.font = "16px system-ui, sans-serif";
  context.fillStyle = soft;
  lines.forEach((line, i) => context.fillText(line, pad, 68 + i * 22));
  regions.forEach((canvas, i) => context.drawImage(canvas, pad + i * (side + pad), top, side, side));
  let y = top + side + pad;
  charts.forEach((canvas, i) => {
    const x = pad + (i % 3) * (small + pad);
    context.fillStyle = ink;
    context.font = "600 16px system-ui, sans-serif";
    context.fillText(canvas.closest("figure").querySelector("h2").textContent, x, y + 18);
    context.drawImage(canvas, x, y + 28, small, heights[i]);
    if (i % 3 === 2) y += rows[Math.floor(i / 3)];
  });
  return new Promise((done) => { sheet.toBlob(done, "image/png"); });
}
