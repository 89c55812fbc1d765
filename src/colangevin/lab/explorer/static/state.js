// Settings, and their place in the address: only what differs from the defaults is written there.

export const SECTIONS = ["data", "network", "training", "a", "b"];

export const copy = (value) => JSON.parse(JSON.stringify(value));
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/** The settings that a section has now: those that its kind of data or its method uses. */
export function usedNames(choices, section, values) {
  if (section === "data") return ["kind", ...choices.data_uses[values.kind]];
  if (section === "a" || section === "b") return ["method", ...choices.used[values.method]];
  return Object.keys(choices.sections[section]);
}

/** Complete settings from a preset or an address. */
export function complete(choices, given) {
  const spec = copy(choices.default);
  for (const section of SECTIONS) {
    if (section === "b") {
      spec.b = given.b ? { ...copy(choices.default.a), ...copy(given.b) } : null;
    } else {
      Object.assign(spec[section], copy(given[section] ?? {}));
    }
  }
  return spec;
}

/** The address of a training: its start, its changes and how far it has come. */
export function toHash(choices, start, changes, steps, preset) {
  const query = new URLSearchParams();
  if (preset) query.set("preset", preset);
  const base = preset ? complete(choices, choices.presets[preset].spec) : choices.default;
  for (const section of SECTIONS) {
    const own = start[section];
    if (section === "b" && !own !== !base.b) query.set("b", own ? "1" : "0");
    if (!own) continue;
    const from = base[section] ?? choices.default.a;
    for (const [name, value] of Object.entries(own)) {
      if (same(value, from[name])) continue;
      query.set(`${section}.${name}`, typeof value === "string" ? value : JSON.stringify(value));
    }
  }
  if (changes.length) query.set("changes", JSON.stringify(changes));
  if (steps) query.set("steps", String(steps));
  return query.toString();
}

function fromText(field, text) {
  if (field.type === "choice") return text;
  try {
    return JSON.parse(text);
  } catch {
    return text; // the server says what is wrong with it
  }
}

/** What an address says. */
export function fromHash(choices, hash) {
  const query = new URLSearchParams(hash.replace(/^#/, ""));
  const preset = Object.hasOwn(choices.presets, query.get("preset") ?? "") ? query.get("preset") : null;
  const given = preset ? copy(choices.presets[preset].spec) : {};
  if (query.get("b") === "1") given.b ??= {};
  if (query.get("b") === "0") given.b = null;
  for (const [key, text] of query) {
    const [section, name] = key.split(".");
    const field = choices.sections[section === "b" ? "a" : section]?.[name];
    if (!field) continue;
    given[section] ??= {};
    given[section][name] = fromText(field, text);
  }
  let changes = [];
  try {
    changes = JSON.parse(query.get("changes") ?? "[]");
  } catch {
    changes = [];
  }
  const steps = Number.parseInt(query.get("steps") ?? "0", 10) || 0;
  return { preset, spec: complete(choices, given), changes: Array.isArray(changes) ? changes : [], steps };
}
