// Figures over time: a card each, with what they are now in large and how they came there as a curve.

import { byId, count, decimal, el, percent, setAttribute, setText, span, timeOfDay } from "./dom.js";

const WIDTH = 300;
const HEIGHT = 84;
const SHORTEST = 60; // seconds that a curve shows at least

const CARDS = [
  { id: "allocated", title: "Allocated", top: 100, show: percent, lines: [["gpu", "GPU"], ["cpu", "CPU"], ["memory", "Memory"]] },
  {
    id: "objective", title: "Objective: less is better", show: percent,
    lines: [["pieces", "GPU left on used devices"], ["imbalance", "CPU imbalance"]],
  },
  {
    id: "reward", title: "Reward: objective gained per pod placed", show: (v) => (v === null || v === undefined ? "–" : String(Number(v.toPrecision(2)))),
    lines: [["reward", "percentage points"]],
  },
  { id: "throughput", title: "Pods placed per second", show: (v) => (v === null || v === undefined ? "–" : decimal(v)), lines: [["rate", "per second"]] },
  { id: "latency", title: "From arrival to node", show: span, lines: [["half", "median"], ["most", "99 %"]] },
  { id: "waiting", title: "Pods that wait", show: (v) => count(v ?? 0), lines: [["waiting", "now"]] },
];

const OWN = "own ";
const shapes = "http://www.w3.org/2000/svg";
const shape = (tag, attributes) => {
  const made = document.createElementNS(shapes, tag);
  Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
  return made;
};

export class Curves {
  constructor() {
    this.cards = new Map();
    this.samples = [];
    CARDS.forEach((card) => this.add(card));
  }

  add(card) {
    const figures = card.lines.map(([, label], k) => {
      const value = el("b", { text: "–" });
      const name = el("span", { class: "fine" }, card.lines.length > 1 ? el("i", { class: `key line-${k}`, "aria-hidden": "true" }) : "", label);
      return { value, part: el("span", { class: "figure" }, value, name) };
    });
    const picture = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", tabindex: "0" });
    picture.append(shape("line", { class: "base", x1: 0, x2: WIDTH, y1: HEIGHT - 1, y2: HEIGHT - 1 }));
    const cursor = shape("line", { class: "cursor", y1: 0, y2: HEIGHT });
    const paths = card.lines.map((_, k) => shape("path", { class: `line line-${k}` }));
    picture.append(cursor, ...[...paths].reverse());
    const most = el("span", { class: "fine" });
    const from = el("span", { class: "fine" });
    const said = el("span", { class: "fine said-now" });
    const item = el("li", { id: `card-${card.id}` },
      el("h2", { text: card.title }), el("p", { class: "figures" }, ...figures.map((f) => f.part)),
      el("div", { class: "plot" }, most, picture), el("p", { class: "axis" }, from, said));
    byId("cards").append(item);
    const built = { ...card, figures, picture, paths, most, from, said, cursor, at: null }; // at: the moment that is looked at
    picture.addEventListener("pointermove", (event) => {
      const box = picture.getBoundingClientRect();
      this.choose(built, Math.max(0, Math.min(1, (event.clientX - box.left) / box.width)));
    });
    picture.addEventListener("pointerleave", () => this.choose(built, null));
    picture.addEventListener("blur", () => this.choose(built, null));
    picture.addEventListener("keydown", (event) => this.press(built, event));
    this.cards.set(card.id, built);
  }

  take(samples) {
    this.samples = samples;
    const last = samples.at(-1);
    if (!last) return;
    for (const key of Object.keys(last).filter((one) => one.startsWith(OWN) && !this.cards.has(one))) {
      this.add({ id: key, title: key.slice(OWN.length), show: (v) => (v === null || v === undefined ? "–" : decimal(v)), lines: [[key, "now"]] });
    }
    for (const card of this.cards.values()) this.draw(card, last);
  }

  draw(card, last) {
    const { samples } = this;
    const end = last.time;
    const begin = Math.min(samples[0].time, end - SHORTEST);
    card.scale = (time) => ((time - begin) / (end - begin)) * WIDTH;
    const values = card.lines.flatMap(([key]) => samples.map((sample) => sample[key])).filter((v) => v !== null && v !== undefined);
    const low = Math.min(0, ...values);
    const high = card.top ?? (niceTop(Math.max(...values, 0)) || 1);
    const y = (value) => 2 + (1 - (Math.min(value, high) - low) / (high - low)) * (HEIGHT - 4);
    card.lines.forEach(([key], k) => {
      let path = "";
      let down = false;
      for (const sample of samples) {
        const value = sample[key];
        if (value === null || value === undefined) down = false;
        else {
          const point = `${card.scale(sample.time).toFixed(1)} ${y(value).toFixed(1)}`;
          path += down ? `L${point}` : `M${point}h0`; // one alone is a dot
          down = true;
        }
      }
      card.paths[k].setAttribute("d", path);
      const there = last[key] !== null && last[key] !== undefined;
      card.figures[k].part.hidden = !there && card.lines.length > 1 && !values.length;
      setText(card.figures[k].value, card.show(last[key]));
    });
    setText(card.most, card.show(high));
    setText(card.from, `${span(end - begin)} ago`);
    setAttribute(card.picture, "aria-label", `${card.title}, last ${span(end - begin)}: ${summary(card, samples)}`);
    if (card.at === null) setText(card.said, "now");
    else this.mark(card, this.nearest(card, card.scale(card.at)));
  }

  choose(card, share) {
    const { samples } = this;
    if (share === null || samples.length === 0) {
      card.at = null;
      card.cursor.removeAttribute("x1");
      card.picture.classList.remove("pointed");
      setText(card.said, "now");
      return;
    }
    this.mark(card, this.nearest(card, share * WIDTH));
  }

  nearest(card, x) {
    let best = 0;
    this.samples.forEach((sample, k) => {
      if (Math.abs(card.scale(sample.time) - x) < Math.abs(card.scale(this.samples[best].time) - x)) best = k;
    });
    return best;
  }

  press(card, event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    const last = this.samples.length - 1;
    if (step === undefined || last < 0) return;
    event.preventDefault();
    const at = card.at === null ? last : this.nearest(card, card.scale(card.at));
    this.mark(card, Math.max(0, Math.min(last, at + step)));
    byId("spoken").textContent = card.said.textContent;
  }

  mark(card, k) {
    const sample = this.samples[k];
    card.at = sample.time;
    const x = card.scale(sample.time);
    card.cursor.setAttribute("x1", x);
    card.cursor.setAttribute("x2", x);
    card.picture.classList.add("pointed");
    const said = card.lines.filter(([key]) => sample[key] !== undefined && sample[key] !== null);
    setText(card.said, `${timeOfDay(sample.time)}: ${said.map(([key, label]) => `${card.lines.length > 1 ? `${label} ` : ""}${card.show(sample[key])}`).join(", ") || "nothing"}`);
  }
}

function summary(card, samples) {
  return card.lines.map(([key, label]) => {
    const values = samples.map((sample) => sample[key]).filter((v) => v !== null && v !== undefined);
    if (!values.length) return `${label} not known`;
    return `${label} now ${card.show(values.at(-1))}, from ${card.show(Math.min(...values))} to ${card.show(Math.max(...values))}`;
  }).join("; ");
}

// The next of 1, 2, 5 times a power of ten.
function niceTop(value) {
  if (value <= 0) return 0;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((k) => k * power).find((k) => k >= value);
}
