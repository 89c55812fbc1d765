// Two weights on circles, integrated by BAOAB: the formulas of cl.Circle with momentum.
"use strict";

const circle = {
  // One kick of length time: ω ← ω − t G ξ / r².
  kick(state, gradient, time, radius) {
    for (let i = 0; i < 2; i++) state.omega[i] -= (time * gradient[i] * state.xi[i]) / radius ** 2;
  },
  // A rotation by ω t, and back to length r: rounding would add up.
  drift(state, time, radius) {
    for (let i = 0; i < 2; i++) {
      const angle = state.omega[i] * time, c = Math.cos(angle), s = Math.sin(angle);
      const theta = c * state.theta[i] + s * state.xi[i], xi = c * state.xi[i] - s * state.theta[i];
      const scale = radius / Math.hypot(theta, xi);
      state.theta[i] = scale * theta;
      state.xi[i] = scale * xi;
    }
  },
  // The exact Ornstein–Uhlenbeck process: ω ← c ω + √(τ(1 − c²)) R / r.
  thermostat(state, { friction, step, temperature, radius }, normal) {
    const c = Math.exp(-friction * step), size = Math.sqrt(temperature * (1 - c * c)) / radius;
    for (let i = 0; i < 2; i++) state.omega[i] = c * state.omega[i] + size * normal();
  },
  gradient: (theta, minimum) => theta.map((value, i) => value - minimum[i]),
  step(state, settings, minimum, normal) {
    const half = settings.step / 2;
    circle.kick(state, circle.gradient(state.theta, minimum), half, settings.radius);
    circle.drift(state, half, settings.radius);
    circle.thermostat(state, settings, normal);
    circle.drift(state, half, settings.radius);
    circle.kick(state, circle.gradient(state.theta, minimum), half, settings.radius);
  },
  start: (radius) => ({
    theta: [0.9 * radius, -0.5 * radius],
    xi: [Math.sqrt(1 - 0.81) * radius, Math.sqrt(0.75) * radius],
    omega: [0, 0],
  }),
  violation: (state, radius) =>
    Math.max(...state.theta.map((t, i) => Math.abs(t * t + state.xi[i] ** 2 - radius ** 2))),
};

// Normal numbers by Box and Muller, from a seed: the page does the same each time.
function normals(seed) {
  const uniform = () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

function showCircle(root) {
  const canvas = root.querySelector("canvas"), pen = canvas.getContext("2d");
  const form = root.querySelector("form"), field = (name) => form.elements[name];
  const side = canvas.width, extent = 2, minimum = [0.6, 1.3];
  let state, trail, settings, playing = true, normal, kinetic;

  const read = () => {
    const power = Number(field("temperature").value);
    const next = {
      temperature: power <= -5 ? 0 : 10 ** power,
      step: Number(field("step").value),
      friction: Number(field("friction").value),
      radius: Number(field("radius").value),
    };
    if (!settings || next.radius !== settings.radius) again(next.radius);
    settings = next;
    for (const name of ["temperature", "step", "friction", "radius"])
      field(name).nextElementSibling.value = settings[name] < 1e-2 ? settings[name].toExponential(0) : settings[name].toFixed(2);
  };
  const again = (radius) => {
    [state, trail, normal, kinetic] = [circle.start(radius), [], normals(1), { sum: 0, count: 0 }];
  };
  const place = (q) => [((q[0] + extent) / (2 * extent)) * side, ((extent - q[1]) / (2 * extent)) * side];

  const draw = () => {
    pen.clearRect(0, 0, side, side);
    const [mx, my] = place(minimum);
    const shade = pen.createRadialGradient(mx, my, 0, mx, my, side);
    shade.addColorStop(0, "#dbe9ff");
    shade.addColorStop(1, "#33415c");
    pen.fillStyle = shade;
    pen.fillRect(0, 0, side, side);
    const [left, top] = place([-settings.radius, settings.radius]);
    pen.strokeStyle = "#b3261e";
    pen.lineWidth = 3;
    pen.strokeRect(left, top, (settings.radius / extent) * side, (settings.radius / extent) * side);
    pen.fillStyle = "rgba(255, 214, 10, .55)";
    for (const point of trail) {
      const [x, y] = place(point);
      pen.fillRect(x - 1.5, y - 1.5, 3, 3);
    }
    pen.strokeStyle = "#111";
    pen.beginPath();
    for (const [dx, dy] of [[9, 9], [9, -9]]) {
      pen.moveTo(mx - dx, my - dy);
      pen.lineTo(mx + dx, my + dy);
    }
    pen.stroke();
    const [x, y] = place(state.theta);
    pen.fillStyle = "#b3261e";
    pen.beginPath();
    pen.arc(x, y, 7, 0, 2 * Math.PI);
    pen.fill();
  };
  const frame = () => {
    if (playing)
      for (let i = 0; i < 5; i++) {
        circle.step(state, settings, minimum, normal);
        trail.push([...state.theta]);
        if (trail.length > 4000) trail.shift();
        kinetic.sum += (settings.radius ** 2 * (state.omega[0] ** 2 + state.omega[1] ** 2)) / 2;
        kinetic.count += 1;
      }
    field("violation").value = circle.violation(state, settings.radius).toExponential(0);
    field("kinetic").value = kinetic.count ? (kinetic.sum / kinetic.count).toPrecision(2) : "–";
    draw();
    requestAnimationFrame(frame);
  };
  const drag = (event) => {
    if (!event.buttons) return;
    const box = canvas.getBoundingClientRect();
    minimum[0] = ((event.clientX - box.left) / box.width) * 2 * extent - extent;
    minimum[1] = extent - ((event.clientY - box.top) / box.height) * 2 * extent;
    event.preventDefault();
  };
  canvas.addEventListener("pointerdown", drag);
  canvas.addEventListener("pointermove", drag);
  form.addEventListener("input", read);
  form.addEventListener("submit", (event) => event.preventDefault());
  field("again").addEventListener("click", () => again(settings.radius));
  field("play").addEventListener("click", (event) => {
    playing = !playing;
    event.target.textContent = playing ? "Pause" : "Play";
  });
  read();
  frame();
}

if (typeof document !== "undefined") {
  const root = document.getElementById("circle-demo");
  if (root) showCircle(root);
} else if (typeof module !== "undefined") module.exports = { circle, normals };
