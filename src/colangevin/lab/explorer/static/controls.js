import { openWords, short, wordOf } from "./words.js";

// Controls from the list of choices: each has a label, a range and one function for its changes.

const NOTCHES = 400;

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

export function shown(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e4 || size < 1e-3) return value.toExponential(1).replace("e+", "e").replace(".0e", "e");
  return String(Number(value.toPrecision(3)));
}

function toNotch(field, value) {
  if (field.scale !== "log") return value;
  if (value === 0) return 0;
  const low = Math.log10(field.least), high = Math.log10(field.most);
  return Math.round(1 + ((Math.log10(value) - low) / (high - low)) * (NOTCHES - 1));
}

function fromNotch(field, notch) {
  if (field.scale !== "log") return Number(notch);
  if (field.zero && notch <= 0) return 0;
  const low = Math.log10(field.least), high = Math.log10(field.most);
  const value = 10 ** (low + ((Math.max(1, notch) - 1) / (NOTCHES - 1)) * (high - low));
  const round = field.integer ? Math.round(value) : Number(value.toPrecision(2));
  return Math.min(field.most, Math.max(field.least, round));
}

function numberControl(id, field, send) {
  const box = make("input", { type: "number", id, step: "any", inputMode: "decimal" });
  const slider = make("input", { type: "range" });
  slider.setAttribute("aria-label", `${field.label}, slider`);
  if (field.scale === "log") {
    Object.assign(slider, { min: field.zero ? 0 : 1, max: NOTCHES, step: 1 });
  } else {
    const step = field.integer ? 1 : field.most - field.least > 5 ? 0.1 : field.most - field.least > 1 ? 0.05 : 0.01;
    Object.assign(slider, { min: field.least, max: field.most, step });
  }
  const row = make("div", { className: "field" }, make("label", { htmlFor: id, textContent: field.label }), box, slider);
  const set = (value) => {
    row.classList.remove("bad");
    box.value = shown(value);
    slider.value = toNotch(field, value);
    slider.setAttribute("aria-valuetext", shown(value));
  };
  slider.addEventListener("input", () => {
    const value = fromNotch(field, Number(slider.value));
    set(value);
    send(value);
  });
  box.addEventListener("change", () => {
    const value = Number(box.value);
    const inside = (value >= field.least && value <= field.most) || (field.zero && value === 0);
    const good = box.value !== "" && inside && (!field.integer || Number.isInteger(value));
    row.classList.toggle("bad", !good);
    box.setAttribute("aria-invalid", String(!good));
    if (!good) {
      const zero = field.zero ? " or 0" : "";
      return send(null, `${field.label} must be ${field.integer ? "a whole number " : ""}from ${shown(field.least)} to ${shown(field.most)}${zero}`);
    }
    set(value);
    return send(value);
  });
  return { row, set };
}

function choiceControl(id, field, send) {
  const list = make("select", { id });
  for (const [value, label] of Object.entries(field.options)) list.append(make("option", { value, textContent: label }));
  list.addEventListener("change", () => send(list.value));
  const row = make("div", { className: "field wide" }, make("label", { htmlFor: id, textContent: field.label }), list);
  return { row, set: (value) => { list.value = value; } };
}

function flagControl(id, field, send) {
  const box = make("input", { type: "checkbox", id });
  box.addEventListener("change", () => send(box.checked));
  const row = make("div", { className: "field flag" }, make("label", { htmlFor: id }, box, field.label));
  return { row, set: (value) => { box.checked = value; } };
}

const MAKERS = { number: numberControl, choice: choiceControl, flag: flagControl };

/** The controls of a section. `send(name, value, complaint)` is called for every change. */
export class Controls {
  constructor(place, section, fields, live, send) {
    this.controls = {};
    this.labels = {};
    for (const [name, field] of Object.entries(fields)) {
      if (!MAKERS[field.type]) continue;
      const control = MAKERS[field.type](`${section}-${name}`, field, (value, complaint) => send(name, value, complaint));
      this.labels[name] = field.label;
      if (field.hint) control.row.title = field.hint;
      if (wordOf(name, "sgd") && section.length === 1) this.info(control, name, field);
      control.row.classList.toggle("is-live", live.includes(name));
      control.row.dataset.field = name;
      this.controls[name] = control;
      place.append(control.row);
    }
  }

  /** A small button that says what the word means. */
  info(control, name, field) {
    const button = make("button", { type: "button", className: "info", textContent: "?" });
    button.setAttribute("aria-label", `What is ${field.label}?`);
    let key = wordOf(name, "sgd");
    button.addEventListener("click", () => openWords(key));
    const set = control.set;
    control.set = (value) => {
      set(value);
      key = wordOf(name, value);
      button.title = short(key);
    };
    control.row.querySelector("label").after(button);
    control.row.classList.add("has-info");
  }

  set(values) {
    for (const [name, control] of Object.entries(this.controls)) control.set(values[name]);
  }

  /** A number that means nothing now cannot be moved, and its label says why. */
  disable(name, words) {
    const { row } = this.controls[name];
    for (const input of row.querySelectorAll("input")) input.disabled = Boolean(words);
    row.querySelector("label").textContent = this.labels[name] + (words && ` (${words})`);
  }

  show(names) {
    for (const [name, control] of Object.entries(this.controls)) control.row.hidden = !names.includes(name);
  }
}
