// Pods that wait: how many for which reason, and the oldest one by one.

import { byId, count, el, plural, setText, span } from "./dom.js";

export class Pending {
  constructor() {
    this.rows = new Map();
  }

  take(model) {
    const { about, pending } = model;
    if (this.reasons !== about.reasons) this.fillReasons(about.reasons);
    const body = byId("pending-rows");
    for (const [uid, row] of this.rows) {
      if (!pending.has(uid)) {
        row.remove();
        this.rows.delete(uid);
      }
    }
    const ordered = [...pending.values()].sort((a, b) => a.since - b.since || (a.pod < b.pod ? -1 : 1));
    ordered.forEach((pod, k) => {
      const row = this.rows.get(pod.uid) ?? this.addRow(pod.uid);
      this.fill(row, pod, model.time);
      if (body.children[k] !== row) body.insertBefore(row, body.children[k] ?? null);
    });
    byId("pending-scroll").hidden = ordered.length === 0;
    const more = about.waiting - ordered.length;
    setText(byId("pending-note"), about.waiting === 0 ? "No pod waits." : more > 0 ? `The oldest ${count(ordered.length)} of ${count(about.waiting)}.` : "");
  }

  fillReasons(reasons) {
    this.reasons = reasons;
    const most = Math.max(1, ...reasons.map(([, pods]) => pods));
    byId("reasons").replaceChildren(...reasons.map(([reason, pods]) => {
      const bar = el("i");
      bar.style.width = `${(100 * pods) / most}%`;
      return el("li", {}, el("span", { text: reason }), el("b", { text: plural(pods, "pod") }), el("span", { class: "meter", "aria-hidden": "true" }, bar));
    }));
  }

  addRow(uid) {
    const row = el("tr", {}, el("th", { scope: "row" }, el("span"), el("small", { class: "asks" }), el("small")), el("td"));
    this.rows.set(uid, row);
    return row;
  }

  fill(row, pod, now) {
    const [head, since] = row.children;
    const [name, asks, reason] = head.children;
    setText(name, pod.pod);
    setText(asks, `${pod.request} · ${pod.profile || "no scheduler"}`);
    setText(reason, pod.reason || "not decided yet");
    setText(since, span(Math.max(0, now - pod.since)));
  }
}
