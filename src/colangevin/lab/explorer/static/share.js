// Link, picture, record and program of a training.

import { picture, save } from "./exports.js";
import { toHash } from "./state.js";

const find = (id) => document.getElementById(id);

export function flash(id, text) {
  const before = find(id).textContent;
  find(id).textContent = text;
  setTimeout(() => { find(id).textContent = before; }, 1500);
}

export class Share {
  /** `say` has the page's functions attempt, announce, complain, send and remember. */
  constructor(page, say) {
    Object.assign(this, { page, ...say });
  }

  async code() {
    const text = await this.attempt(() => this.page.session.code());
    if (text === null) return;
    find("code-text").textContent = text;
    find("code-dialog").showModal();
  }

  async copyText(text, said) {
    try {
      await navigator.clipboard.writeText(text);
      this.announce(said);
      return true;
    } catch {
      this.complain(`Copy this by hand: ${text}`);
      return false;
    }
  }

  async copyLink() {
    const { page } = this;
    await this.send("pause");
    this.remember();
    const hash = toHash(page.choices, page.start, page.changes, page.steps, page.preset);
    if (await this.copyText(`${location.origin}/#${hash}`, "The link is copied.")) flash("copy-link", "Copied");
  }

  async copyCode() {
    if (await this.copyText(find("code-text").textContent, "The program is copied.")) flash("code-copy", "Copied");
  }

  async picture() {
    const { spec } = this.page;
    const names = ["a", "b"].filter((l) => spec[l]).map((l) => `${l.toUpperCase()}: ${find(`name-${l}`).textContent}, h = ${spec[l].h}, test accuracy ${find(`test-accuracy-${l}`).textContent}, test loss ${find(`test-loss-${l}`).textContent}`);
    save("cola-explore.png", await picture(`cola explore, step ${find("steps").textContent}`, names), "image/png");
  }

  async record() {
    const record = await this.attempt(() => this.page.session.record());
    if (record) save("cola-explore.json", JSON.stringify(record, null, 1), "application/json");
  }
}
