// From messages to what is seen. Messages are taken in at once, drawing happens once per frame.

import { byId, count, decimal, el, plural, setText, timeOfDay } from "./dom.js";
import { Curves } from "./curves.js";
import { Decisions } from "./decisions.js";
import { HeatMaps } from "./heat.js";
import { Model } from "./model.js";
import { NodeDialog, NodeTable } from "./nodes.js";
import { Pending } from "./pending.js";
import { Policies } from "./policies.js";
import { Stream } from "./stream.js";

const SPOKEN_MILLISECONDS = 15_000; // a summary for screen readers, not more often
const QUIET_SECONDS = 40; // the server says something at least every 15

const model = new Model();
const dialog = new NodeDialog(model);
const open = (name) => dialog.open(name);
const parts = {
  maps: new HeatMaps(open), table: new NodeTable(open), pending: new Pending(),
  decisions: new Decisions(), curves: new Curves(), policies: new Policies(),
};

let due = null; // what has changed since the last drawing
let held = false;
let rendered = false;
let linked = false;
let spokenAt = -Infinity;

function receive(kind, message) {
  const changed = model.take(kind, message);
  if (due === null) {
    due = { parts: new Set(), nodes: new Set(), nodeSet: false, flash: kind === "update" };
    if (!held) requestAnimationFrame(draw);
  }
  changed.parts.forEach((part) => due.parts.add(part));
  changed.nodes.forEach((name) => due.nodes.add(name));
  due.nodeSet ||= changed.nodeSet;
  showLink();
}

function draw() {
  if (due === null || held) return;
  const { parts: changed, nodes, nodeSet, flash } = due;
  due = null;
  if (changed.has("nodes")) {
    parts.maps.take(model, nodeSet);
    parts.table.take(model, [...nodes], flash);
  }
  if (changed.has("pending") || changed.has("about") || changed.has("curves")) parts.pending.take(model);
  if (changed.has("decisions")) parts.decisions.take(model);
  if (changed.has("curves")) parts.curves.take(model.curves);
  if (changed.has("policies") || changed.has("decisions") || changed.has("about")) parts.policies.take(model);
  headline();
  if (!rendered) {
    rendered = true;
    requestAnimationFrame(() => setTimeout(() => {
      performance.mark("rendered");
      document.documentElement.dataset.rendered = "";
    }));
  }
}

const bold = (text) => el("b", { text });

function headline() {
  const { about } = model;
  const last = model.curves.at(-1) ?? {};
  const shares = [["gpu", "GPU"], ["cpu", "CPU"], ["memory", "memory"]].filter(([key]) => last[key] !== null && last[key] !== undefined);
  const words = [bold(plural(model.nodes.size, "node"))];
  if (shares[0]) words.push(", ", bold(`${decimal(last[shares[0][0]])} %`), ` of their ${shares[0][1]} allocated`);
  words.push("; ", about.waiting ? bold(plural(about.waiting, "pod")) : "no pod", about.waiting > 1 ? " wait." : " waits.");
  const text = words.map((word) => word.textContent ?? word).join("");
  if (byId("headline").textContent !== text) byId("headline").replaceChildren(...words);
  setText(byId("title"), about.title);
  document.title = `${about.waiting ? `(${count(about.waiting)}) ` : ""}Pilotage`;
  const problem = byId("problem");
  problem.hidden = !about.problem;
  setText(problem, about.problem ? `What is shown may be old: ${about.problem}` : "");
  if (performance.now() - spokenAt > SPOKEN_MILLISECONDS) {
    spokenAt = performance.now();
    setText(byId("spoken"), text);
  }
}

function showLink(now = linked) {
  linked = now;
  const text = held ? "held" : linked ? "live" : "not connected, trying again";
  setText(byId("link-text"), model.time ? `${text} · ${timeOfDay(model.time)}` : text);
  byId("lamp").className = held ? "held" : linked ? "live" : "lost";
}

byId("hold").addEventListener("click", (event) => {
  held = !held;
  event.currentTarget.setAttribute("aria-pressed", String(held));
  showLink();
  draw();
});

let heard = performance.now();
const stream = new Stream((kind, message) => {
  heard = performance.now();
  receive(kind, message);
}, (now) => {
  heard = performance.now();
  showLink(now);
});
setInterval(() => {
  if (performance.now() - heard < 1000 * QUIET_SECONDS) return;
  heard = performance.now();
  stream.connect(); // the connection is dead and nobody has noticed
}, 5000);
stream.open();
