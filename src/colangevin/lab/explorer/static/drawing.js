// Points that the user sets: by pointer, or by keyboard with a pen that arrow keys move.

const NEAR = 0.04;
const LIMIT = 600;

export class Drawing {
  /** `change(points)` is called whenever the points are others. */
  constructor(change, redraw) {
    this.change = change;
    this.redraw = redraw;
    this.pen = 0;
    this.cursor = null;
    this.active = false;
    this.points = [];
    this.bounds = [-1.5, 1.5, -1.5, 1.5];
    for (const [id, pen] of [["draw-0", 0], ["draw-1", 1], ["draw-erase", null]]) {
      document.getElementById(id).addEventListener("click", () => this.choose(pen));
    }
    document.getElementById("draw-clear").addEventListener("click", () => this.set([]));
  }

  choose(pen) {
    this.pen = pen;
    for (const [id, own] of [["draw-0", 0], ["draw-1", 1], ["draw-erase", null]]) {
      document.getElementById(id).setAttribute("aria-checked", String(own === pen));
    }
  }

  show(active, points, bounds) {
    this.active = active;
    this.points = points;
    this.bounds = bounds;
    document.getElementById("drawing").hidden = !active;
    for (const canvas of document.querySelectorAll(".region")) {
      canvas.classList.toggle("drawable", active);
      // A picture that can be drawn on is more than an image to a screen reader.
      canvas.setAttribute("role", active ? "application" : "img");
    }
    if (!active) this.cursor = null;
  }

  set(points) {
    this.points = points;
    this.change(points);
  }

  /** Listen to one canvas. */
  attach(canvas) {
    let down = false, last = null;
    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    };
    canvas.addEventListener("pointerdown", (event) => {
      if (!this.active) return;
      down = true;
      last = place(event);
      canvas.setPointerCapture(event.pointerId);
      this.put(...last);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.active || !down) return;
      const [x, y] = place(event);
      if (Math.hypot(x - last[0], y - last[1]) < NEAR) return;
      last = [x, y];
      this.put(x, y);
    });
    canvas.addEventListener("pointerup", () => { down = false; });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => { this.cursor = null; this.redraw(); });
  }

  key(event) {
    if (!this.active) return;
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    this.cursor ??= [0.5, 0.5];
    if (moves[event.key]) {
      const size = event.shiftKey ? 0.1 : 0.02;
      this.cursor = this.cursor.map((v, i) => Math.min(0.99, Math.max(0.01, v + moves[event.key][i] * size)));
    } else if (event.key === "Enter") this.put(...this.cursor);
    else if (event.key === "1" || event.key === "2") this.choose(Number(event.key) - 1);
    else if (event.key === "Delete" || event.key === "Backspace") this.put(...this.cursor, null);
    else return;
    event.preventDefault();
    event.stopPropagation();
    this.redraw();
  }

  /** Set a point, or remove those that are near, at shares of the picture's side. */
  put(across, down, pen = this.pen) {
    const [left, right, bottom, top] = this.bounds;
    if (across < 0 || across > 1 || down < 0 || down > 1) return;
    const x = left + (right - left) * across, y = top - (top - bottom) * down;
    const near = NEAR * (right - left) * 0.6;
    const kept = this.points.filter((p) => pen !== null || Math.hypot(p[0] - x, p[1] - y) > near);
    if (pen !== null && kept.length < LIMIT) kept.push([Number(x.toFixed(3)), Number(y.toFixed(3)), pen]);
    this.set(kept);
  }
}
