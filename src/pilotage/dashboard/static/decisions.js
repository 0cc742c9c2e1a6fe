// The stream of decisions, newest first; each opens to its explanation, which is asked for then.

import { byId, count, decimal, el, plural, setText, span, timeOfDay } from "./dom.js";

const SHOWN = 150;
const CANDIDATES_SHOWN = 12;
const YOUNG_SECONDS = 60;
const AGAIN_MILLISECONDS = 1500;
const TRIES = 20;

const WHICH = {
  all: () => true,
  placed: (decision) => decision.node !== "",
  refused: (decision) => decision.node === "",
  differs: (decision) => decision.differs,
};

// Numbers begin again with the server.
const keyOf = (decision) => `${decision.number} ${decision.time}`;

export class Decisions {
  constructor() {
    this.which = "all";
    this.items = new Map(); // key -> element
    this.list = byId("decision-list");
    document.querySelectorAll('input[name="which"]').forEach((input) => {
      input.addEventListener("change", () => {
        this.which = input.value;
        this.draw();
      });
    });
  }

  take(model) {
    this.model = model;
    this.draw();
  }

  draw() {
    if (!this.model) return;
    const chosen = this.model.decisions.filter(WHICH[this.which]).slice(-SHOWN).reverse();
    const wanted = new Set(chosen.map(keyOf));
    for (const [key, item] of this.items) {
      if (!wanted.has(key)) {
        item.remove();
        this.items.delete(key);
      }
    }
    chosen.forEach((decision, k) => {
      let item = this.items.get(keyOf(decision));
      if (!item) {
        item = this.build(decision);
        this.items.set(keyOf(decision), item);
      }
      if (this.list.children[k] !== item) this.list.insertBefore(item, this.list.children[k] ?? null);
    });
    this.list.hidden = chosen.length === 0;
    setText(byId("decisions-note"), chosen.length === 0 ? "None yet." : "");
  }

  build(decision) {
    const where = decision.node
      ? el("span", { class: "where" }, "→ ", el("b", { text: decision.node }), decision.devices ? ` device ${decision.devices.replaceAll("-", ", ")}` : "")
      : el("span", { class: "where bad" }, "fits nowhere");
    const panel = el("div", { class: "explanation", id: `why-${decision.number}`, hidden: true });
    const button = el("button", { type: "button", "aria-expanded": "false", "aria-controls": panel.id },
      el("span", { class: "what" }, el("span", { class: "pod", text: decision.pod }), where),
      el("span", { class: "fine" }, `${timeOfDay(decision.time)} · ${decision.policy || decision.profile}`,
        decision.waited === null ? "" : ` · after ${span(decision.waited)}`,
        decision.differs ? el("span", { class: "tag", text: `shadow: ${decision.advised || "nowhere"}` }) : null));
    button.addEventListener("click", () => this.toggle(decision, button, panel));
    return el("li", { "data-decision": decision.number }, button, panel);
  }

  async toggle(decision, button, panel) {
    const open = button.getAttribute("aria-expanded") !== "true";
    button.setAttribute("aria-expanded", String(open));
    panel.hidden = !open;
    if (!open) return;
    panel.replaceChildren(el("p", { class: "fine", text: "asking" }));
    await this.ask(decision, panel, TRIES);
  }

  // Events come a moment after the binding: a young decision is asked about again.
  async ask(decision, panel, tries) {
    let found;
    try {
      const answer = await fetch(`api/decisions/${decision.number}`);
      found = await answer.json();
      if (!answer.ok) throw new Error(found.problem);
      panel.replaceChildren(...explanation(found));
    } catch (error) {
      panel.replaceChildren(el("p", { class: "fine", text: `No explanation: ${error.message}` }));
      return;
    }
    const young = this.model.time - decision.time < YOUNG_SECONDS;
    if (tries > 1 && young && !found.said.length && !found.judgements.length) {
      setTimeout(() => panel.hidden || this.ask(decision, panel, tries - 1), AGAIN_MILLISECONDS);
    }
  }
}

function explanation(found) {
  const { decision } = found;
  const parts = [el("p", { class: "verdict", text: found.verdict })];
  const facts = [["Asks for", decision.request], ["Scheduler", decision.profile], ...found.facts];
  if (decision.policy) facts.push(["Policy", decision.policy]);
  parts.push(el("dl", {}, ...facts.flatMap(([name, text]) => [el("dt", { text: name }), el("dd", { text })])));
  parts.push(...takenOut(found.filtered));
  found.judgements.forEach((judgement) => parts.push(...judged(judgement, decision)));
  if (found.said.length) {
    parts.push(el("h3", { text: "What was said" }));
    parts.push(el("ul", { class: "plain" }, ...found.said.map((said) =>
      el("li", {}, el("span", { class: "fine", text: `${timeOfDay(said.time)} ${said.by} ` }), `${said.reason}: ${said.note}`))));
  }
  return parts;
}

function takenOut(reasons) {
  if (!reasons.length) return [];
  return [el("h3", { text: "What took nodes out" }),
    el("ul", { class: "plain" }, ...reasons.map(([reason, nodes]) => el("li", {}, nodes ? el("b", { text: `${count(nodes)} ` }) : null, reason)))];
}

// What a policy thought of the nodes: the one that decided, or the shadow.
function judged(judgement, decision) {
  const parts = [];
  if (judgement.shadow) {
    const same = judgement.node === decision.node;
    parts.push(el("p", { class: "verdict" }, el("span", { class: same ? "tag same" : "tag", text: "shadow" }),
      ` ${judgement.policy} ${same ? "agrees" : `would have chosen ${judgement.node || "no node"}`}`),
    el("p", { text: judgement.verdict }));
    if (!same && judgement.node) {
      parts.push(el("p", { text: judgement.rank
        ? `To it, ${decision.node} is number ${count(judgement.rank)} of ${plural(judgement.candidates, "candidate")}.`
        : `To it, ${decision.node} is no candidate.` }));
    }
  }
  if (judgement.best.length) {
    const shown = judgement.best.slice(0, CANDIDATES_SHOWN);
    const title = `Scores by ${judgement.policy}${judgement.candidates > shown.length ? `: the best ${shown.length} of ${plural(judgement.candidates, "candidate")}` : ""}`;
    const rows = shown.map(([node, total]) => {
      const went = node === decision.node;
      return el("tr", { class: went ? "went" : null },
        el("th", { scope: "row" }, node, went ? el("span", { class: "tag same", text: "went here" }) : null),
        el("td", { text: score(total) }));
    });
    parts.push(el("h3", { text: title }), el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
      el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col", text: "Node" }), el("th", { scope: "col", class: "number", text: "Total" }))),
        el("tbody", {}, ...rows))));
  }
  return [...parts, ...takenOut(judgement.filtered)];
}

const score = (value) => (Math.abs(value) >= 1000 || Number.isInteger(value) ? decimal(value) : value.toPrecision(4));
