// The page: settings, commands, frames.

import { getChoices, getOpening, Session } from "./api.js";
import { Controls } from "./controls.js";
import { Drawing } from "./drawing.js";
import { save } from "./exports.js";
import { History } from "./history.js";
import { Opening, told } from "./opening.js";
import { Share } from "./share.js";
import { copy, fromHash, toHash, usedNames, complete } from "./state.js";
import { View } from "./view.js";
import { fillWords, openWords } from "./words.js";

const find = (id) => document.getElementById(id);
const page = {
  choices: null, session: null, spec: null, preset: null, start: null, changes: [], steps: 0,
  state: "starting", times: [], past: null, controls: {}, replay: null, repeating: false,
};
const history = new History();
const view = new View(history, (what) => send("look", what));
const drawing = new Drawing((points) => change("data", "points", points), () => {
  view.cursor = drawing.cursor;
  view.redraw();
});

const share = new Share(page, { attempt, announce, complain, send, remember });
const opening = new Opening(getOpening, (frame, own) => {
  view.history = own;
  page.shownState = "recorded";
  find("state").textContent = "recorded";
  document.body.dataset.shown = frame.steps;
  view.show(frame);
}, () => {
  view.history = history;
  goTo(history.frames.length - 1);
});

// --- words -----------------------------------------------------------------------------------

function announce(text) {
  find("announce").textContent = text;
}

function complain(text) {
  find("notice").textContent = text;
  find("notice").hidden = !text;
}

async function attempt(work) {
  try {
    complain("");
    return await work();
  } catch (error) {
    complain(error.message);
    return null;
  }
}

function send(what, more = {}) {
  opening.stop();
  return attempt(() => page.session.command(what, more));
}

// --- settings --------------------------------------------------------------------------------

function showSettings() {
  const { spec, controls, choices } = page;
  for (const section of ["data", "network", "training", "a", "b"]) {
    const values = spec[section] ?? spec.a;
    controls[section].set(values);
    controls[section].show(usedNames(choices, section, values).filter((name) => fits(section, name)));
    if (section === "a" || section === "b") controls[section].disable("tau", cold(values) ? "only along the gradient" : "");
    if (section === "a" || section === "b") find(`name-${section}`).textContent = title(values);
  }
  find("compare").checked = Boolean(spec.b);
  find("tab-b").disabled = !spec.b;
  if (!spec.b) showTab("a");
  for (const button of find("presets").children) button.setAttribute("aria-pressed", String(button.dataset.preset === page.preset));
}

/** Whether the steps of a run have no noise: they do not go along the gradient. */
function cold(run) {
  return run.method === "cola" && run.direction !== "gradient";
}

/** A radius only where there is one to choose; hidden weights only where there are any. */
function fits(section, name) {
  if (section !== "a" && section !== "b") return true;
  const run = page.spec[section] ?? page.spec.a;
  const role = name.replace("_radius", "");
  if (role === "hidden" && page.spec.network.depth < 2) return false;
  if (name.endsWith("_radius")) return !["none", "orthogonal"].includes(run[role]);
  return !(name === "gamma" || name === "scheme") || !(run.method === "cola" && run.overdamped);
}

function title(run) {
  const method = page.choices.sections.a.method.options[run.method];
  const name = cold(run) ? `${method} along ${run.direction}` : method;
  const constrained = page.choices.used[run.method].includes("input");
  const kinds = constrained ? ["input", "hidden", "output"].filter((l) => fits("a", l) || l !== "hidden").map((l) => run[l]).filter((k) => k !== "none") : [];
  const unique = [...new Set(kinds)];
  return unique.length ? `${name}, ${unique.join(" + ")}` : name;
}

function showTab(letter) {
  for (const other of ["a", "b"]) {
    find(`tab-${other}`).setAttribute("aria-selected", String(other === letter));
    find(`tab-${other}`).tabIndex = other === letter ? 0 : -1;
    find(`fields-${other}`).hidden = other !== letter;
  }
}

const TEST_EVERY = 4, SHEET = 1.5;
let waiting = null;
const pending = {};

/** A control was moved: change the training, or start it again. */
function change(section, name, value, complaint) {
  if (complaint) return complain(complaint);
  opening.stop();
  page.repeating = false;
  page.spec[section][name] = value;
  if ((section === "a" || section === "b") && cold(page.spec[section])) page.spec[section].tau = 0;
  const live = (section === "a" || section === "b") && page.choices.live.includes(name);
  if (live) {
    pending[section] ??= {};
    pending[section][name] = value;
  } else {
    pending.again = true;
    page.preset = null;
  }
  showSettings();
  if (section === "data" && name === "points") drawPoints();
  clearTimeout(waiting);
  waiting = setTimeout(flush, live ? 80 : 200);
  return undefined;
}

/** Points appear at once, before the server has them; every fourth is a test point, as there. */
function drawPoints() {
  if (!view.problem) return;
  const [left, right, bottom, top] = view.problem.bounds;
  const sent = (points) => ({
    classes: points.map((p) => p[2]),
    places: points.flatMap((p) => [((p[0] - left) / (right - left)) * 4095, ((p[1] - bottom) / (top - bottom)) * 4095]),
  });
  const tested = (_, i) => i % TEST_EVERY === TEST_EVERY - 1;
  const points = page.spec.data.points;
  view.problem = { ...view.problem, train: sent(points.filter((p, i) => !tested(p, i))), test: sent(points.filter(tested)) };
  view.redraw();
}

/** An empty picture to draw into; the training begins with points of both classes. */
async function emptySheet() {
  await send("pause");
  showStory(null);
  const bounds = [-SHEET, SHEET, -SHEET, SHEET];
  view.begin({ ...view.problem, bounds, spec: copy(page.spec) });
  drawing.show(true, copy(page.spec.data.points), bounds);
  drawPoints();
  announce("Set points of both classes.");
}

async function flush() {
  const again = pending.again;
  const changes = { a: pending.a, b: pending.b };
  for (const key of Object.keys(pending)) delete pending[key];
  if (!page.session) return;
  if (again) {
    await restart(page.spec, [], page.state === "playing");
    return;
  }
  for (const [run, values] of Object.entries(changes)) if (values) await send("change", { run, values });
}

function enough(spec) {
  const classes = new Set(spec.data.points.map((point) => point[2]));
  return spec.data.kind !== "drawn" || classes.size === 2;
}

/** Start the training again; the settings of the page are its start. */
async function restart(spec, changes = [], play = false, until = 0) {
  opening.stop(false);
  if (!enough(spec)) return emptySheet();
  page.repeating = changes.length > 0;
  const done = await showing(spec, () => attempt(() => page.session.command("reset", { spec: copy(spec), changes })));
  if (done && (play || until)) await send("play", until ? { until } : {});
  return undefined;
}

/** Show settings before the answer to a command comes, because the user may change one by then; take them back if it fails. */
async function showing(spec, command) {
  const before = page.spec;
  page.spec = spec;
  if (spec !== before) showSettings();
  const done = await command();
  if (!done && page.spec === spec && spec !== before) {
    page.spec = before;
    if (before) showSettings();
  }
  return done;
}

// --- frames ----------------------------------------------------------------------------------

function onProblem(problem) {
  stopReplay();
  history.clear();
  page.past = null;
  page.start = problem.spec;
  page.spec ??= copy(problem.spec); // later the page's own settings count: the user may be moving one
  page.times = [];
  view.begin(problem);
  showSettings();
  const drawn = problem.spec.data.kind === "drawn";
  drawing.show(drawn, copy(problem.spec.data.points), problem.bounds);
}

function onFrame(frame) {
  page.state = frame.state;
  document.body.dataset.state = frame.state;
  if (frame.state === "failed") return complain(frame.message);
  if (frame.message) complain(frame.message);
  const now = performance.now();
  page.times = [...page.times.filter((time) => now - time < 2000), now];
  page.steps = frame.steps;
  page.changes = frame.changes;
  adopt(frame);
  history.add(frame);
  document.body.dataset.steps = frame.steps;
  showState(frame);
  if (page.past === null && !opening.playing) view.show(frame);
  if (frame.state === "paused") remember();
  return undefined;
}

/** While the changes of a link are made again, the controls follow them. */
function adopt(frame) {
  for (const [letter, run] of Object.entries(page.repeating ? frame.runs : {})) {
    const own = page.spec[letter];
    const other = Object.entries(run.settings).filter(([name, value]) => own && own[name] !== value);
    if (other.length) {
      Object.assign(own, run.settings);
      showSettings();
    }
  }
}

function showState(frame) {
  const playing = frame.state === "playing";
  const fps = page.times.length > 2 ? ((page.times.length - 1) * 1000) / (page.times.at(-1) - page.times[0]) : 0;
  find("rate").textContent = playing ? Math.round(frame.rate).toLocaleString("en") : "–";
  find("fps").textContent = playing && fps ? fps.toFixed(0) : "–";
  if (!opening.playing) find("state").textContent = playing ? "running" : frame.state;
  document.body.dataset.fps = fps.toFixed(1);
  for (const id of ["play", "step", "step-many", "reset"]) find(id).disabled = false;
  const text = playing ? "❚❚ Pause" : "▶ Play";
  if (find("play").textContent !== text) {
    find("play").textContent = text;
    find("play").setAttribute("aria-pressed", String(playing));
    announce(playing ? "The training runs." : `Paused at step ${frame.steps}.`);
  }
  const slider = find("history");
  slider.max = Math.max(0, history.frames.length - 1);
  if (page.past === null) slider.value = slider.max;
  slider.setAttribute("aria-valuetext", `step ${(history.frames[slider.value] ?? frame).steps}`);
}

/** The address of the page is the training. */
function remember() {
  const hash = toHash(page.choices, page.start, page.changes, page.steps, page.preset);
  if (location.hash !== `#${hash}`) window.history.replaceState(null, "", `#${hash}`);
}

// --- history ---------------------------------------------------------------------------------

function goTo(index) {
  if (opening.playing) return opening.stop();
  const last = history.frames.length - 1;
  page.past = index >= last ? null : Math.max(0, index);
  find("history").value = page.past ?? last;
  find("live").disabled = page.past === null;
  const frame = history.frames[page.past ?? last];
  document.body.dataset.shown = frame?.steps ?? "";
  if (frame) view.show(frame);
  find("history").setAttribute("aria-valuetext", `step ${frame?.steps ?? 0}`);
  return undefined;
}

function stopReplay() {
  clearInterval(page.replay);
  page.replay = null;
  find("replay").textContent = "▶ History";
  document.body.dataset.replay = "";
}

function replay() {
  if (page.replay) return stopReplay();
  if (history.frames.length < 2) return undefined;
  goTo(page.past ?? 0);
  find("replay").textContent = "❚❚ History";
  document.body.dataset.replay = "yes";
  page.replay = setInterval(() => {
    goTo((page.past ?? history.frames.length) + 1);
    if (page.past === null) stopReplay();
  }, 80);
  return undefined;
}

// --- commands --------------------------------------------------------------------------------

/** Back to the start, and to its settings. */
async function reset() {
  page.repeating = false;
  await showing(copy(page.start), () => send("reset"));
}

const toggle = () => send(page.state === "playing" ? "pause" : "play");

async function compare(on) {
  if (on === Boolean(page.spec.b)) return;
  page.spec.b = on ? { ...copy(page.spec.a) } : null;
  page.preset = null;
  showSettings();
  showTab(on ? "b" : "a");
  await restart(page.spec, [], page.state === "playing");
}

async function loadPreset(name) {
  const preset = page.choices.presets[name];
  page.preset = name;
  showStory(name);
  await restart(complete(page.choices, preset.spec), [], true);
  if (page.preset !== name) return;
  await send("look", { member: preset.mean ? -1 : 0 });
  await open(name);
}

/** Play the recorded run of a preset; who wants no motion may start it. */
async function open(name) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return undefined;
  return attempt(() => opening.play(name));
}

function showStory(name) {
  find("story").hidden = !name;
  if (!name) return opening.stop();
  const preset = page.choices.presets[name];
  find("story-question").textContent = preset.question;
  find("story-text").textContent = preset.story;
  find("story-told").textContent = "";
  opening.label();
  opening.record(name).then((record) => { find("story-told").textContent = told(record, preset); }, () => {});
  return undefined;
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  view.recolour();
}

function shortcuts(event) {
  const inside = event.target.closest("input, select, textarea, dialog, [role=application]");
  if (inside || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === " " && event.target.closest("button, summary, a, pre")) return;
  const last = history.frames.length - 1;
  const actions = {
    " ": toggle,
    s: () => send("step"),
    r: reset,
    c: () => compare(!page.spec.b),
    l: () => goTo(last),
    ArrowLeft: () => goTo((page.past ?? last) - 1),
    ArrowRight: () => goTo((page.past ?? last) + 1),
    "?": () => find("help-dialog").showModal(),
  };
  const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!action || !page.session) return;
  if (event.key.startsWith("Arrow") && event.target.closest("[role=tab]")) return;
  event.preventDefault();
  action();
}

// --- beginning -------------------------------------------------------------------------------

function wire() {
  const on = (id, event, action) => find(id).addEventListener(event, action);
  on("play", "click", toggle);
  on("step", "click", () => send("step"));
  on("step-many", "click", () => send("step", { count: 100 }));
  on("reset", "click", reset);
  on("pace", "change", (event) => send("pace", { steps: Number(event.target.value) }));
  on("compare", "change", (event) => compare(event.target.checked));
  on("layer", "change", (event) => send("look", { layer: event.target.value }));
  on("show-test", "change", () => view.redraw());
  on("history", "input", (event) => { stopReplay(); goTo(Number(event.target.value)); });
  on("replay", "click", replay);
  on("live", "click", () => { stopReplay(); goTo(history.frames.length - 1); });
  on("copy-link", "click", () => share.copyLink());
  on("export-picture", "click", () => share.picture());
  on("export-record", "click", () => share.record());
  on("export-code", "click", () => share.code());
  on("code-copy", "click", () => share.copyCode());
  on("code-save", "click", () => save("cola_explore.py", find("code-text").textContent, "text/x-python"));
  on("code-close", "click", () => find("code-dialog").close());
  on("help", "click", () => find("help-dialog").showModal());
  on("help-close", "click", () => find("help-dialog").close());
  on("story-close", "click", () => showStory(null));
  on("opening-button", "click", () => (opening.playing ? opening.stop() : page.preset && attempt(() => opening.play(page.preset))));
  on("words", "click", () => openWords(null));
  on("words-close", "click", () => find("words-dialog").close());
  fillWords(find("words-list"));
  for (const button of document.querySelectorAll(".info[data-word]")) button.addEventListener("click", () => openWords(button.dataset.word));
  on("theme", "click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  for (const letter of ["a", "b"]) {
    on(`tab-${letter}`, "click", () => showTab(letter));
    on(`tab-${letter}`, "keydown", (event) => {
      if (!["ArrowLeft", "ArrowRight"].includes(event.key) || !page.spec.b) return;
      const other = letter === "a" ? "b" : "a";
      showTab(other);
      find(`tab-${other}`).focus();
    });
    drawing.attach(find(`region-${letter}`));
  }
  addEventListener("keydown", shortcuts);
  for (const link of document.querySelectorAll('a[href^="#"]')) {
    // The address belongs to the training, so a jump within the page must not change it.
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const target = document.querySelector(link.getAttribute("href"));
      target.scrollIntoView();
      target.focus({ preventScroll: true });
    });
  }
  addEventListener("hashchange", () => attempt(() => follow(location.hash)));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));
}

function build(choices) {
  for (const section of ["data", "network", "training", "a", "b"]) {
    const fields = choices.sections[section === "b" ? "a" : section];
    const live = section === "a" || section === "b" ? choices.live : [];
    page.controls[section] = new Controls(find(`fields-${section}`), section, fields, live, (...what) => change(section, ...what));
  }
  for (const [name, preset] of Object.entries(choices.presets)) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: preset.title });
    button.dataset.preset = name;
    button.addEventListener("click", () => loadPreset(name));
    find("presets").append(button);
  }
}

/** Go to the training of an address. */
async function follow(hash) {
  const wanted = fromHash(page.choices, hash);
  page.preset = wanted.preset;
  showStory(wanted.preset);
  await restart(wanted.spec, wanted.changes, false, wanted.steps);
}

async function boot() {
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  wire();
  page.choices = await getChoices();
  build(page.choices);
  const first = Object.keys(page.choices.presets)[0] ?? null;
  const hash = location.hash.length > 1 ? location.hash : first ? `#preset=${first}` : "";
  let wanted = fromHash(page.choices, hash);
  const lost = "The connection to cola explore is lost. Start it again, then load this page again.";
  const found = () => { if (find("notice").textContent === lost) complain(""); };
  const on = { problem: onProblem, frame: onFrame, lost: () => complain(lost), found };
  page.preset = wanted.preset;
  try {
    page.session = await Session.open(wanted.spec, on);
  } catch (error) {
    // An address that says something impossible: what is wrong with it, and the usual settings.
    complain(error.message);
    wanted = fromHash(page.choices, "");
    page.preset = null;
    if (!error.message.includes("pages")) page.session = await Session.open(wanted.spec, on);
  }
  page.spec = wanted.spec;
  page.start ??= wanted.spec;
  showStory(page.preset);
  showSettings();
  if (page.session && (wanted.changes.length || wanted.steps)) await restart(wanted.spec, wanted.changes, false, wanted.steps);
  document.body.dataset.ready = "yes";
  if (page.session && page.preset && hash === `#preset=${page.preset}`) {
    await send("play");
    if (page.choices.presets[page.preset].mean) await send("look", { member: -1 });
    await open(page.preset);
  }
}

boot().catch((error) => complain(error.message));
