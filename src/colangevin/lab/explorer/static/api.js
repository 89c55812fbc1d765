// The server: requests and the stream of frames.

async function answer(response) {
  if (response.ok) return response;
  let reason = `${response.status}`;
  try {
    reason = (await response.json()).error;
  } catch {
    // no JSON: the status is all there is
  }
  throw new Error(reason);
}

export async function getChoices() {
  return (await answer(await fetch("/choices"))).json();
}

/** The recorded run of a preset. */
export async function getOpening(name) {
  return (await answer(await fetch(`/openings/${name}`))).json();
}

function post(path, body) {
  return fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
}

/** A training on the server. `on` has functions for problem, frame and lost. */
export class Session {
  static async open(spec, on) {
    const { session } = await (await answer(await post("/sessions", spec))).json();
    return new Session(session, on);
  }

  constructor(name, on) {
    this.path = `/sessions/${name}`;
    this.events = new EventSource(`${this.path}/events`);
    this.events.addEventListener("problem", (event) => on.problem(JSON.parse(event.data)));
    this.events.addEventListener("frame", (event) => on.frame(JSON.parse(event.data)));
    this.events.onerror = () => on.lost();
    this.events.onopen = () => on.found();
    addEventListener("pagehide", () => this.close(), { once: true });
  }

  async command(what, more = {}) {
    return (await answer(await post(`${this.path}/commands`, { do: what, ...more }))).json();
  }

  async code() {
    return (await answer(await fetch(`${this.path}/code`))).text();
  }

  async record() {
    return (await answer(await fetch(`${this.path}/record`))).json();
  }

  close() {
    this.events.close();
    navigator.sendBeacon(`${this.path}/close`);
  }
}
