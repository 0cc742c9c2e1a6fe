// Schedulers and policies side by side, and where the shadow would have chosen otherwise.

import { byId, count, el, plural, setText, span } from "./dom.js";

const DIFFERENCES_SHOWN = 50;
const HEADS = ["Scheduler", "Policy", "Placed", "Fits nowhere", "Median wait", "99 % of waits", "Shadow agrees"];

export class Policies {
  constructor() {
    byId("policy-heads").replaceChildren(...HEADS.map((text, k) => el("th", { scope: "col", class: k > 1 ? "number" : null, text })));
  }

  take(model) {
    const sides = [...model.sides.values()].sort((a, b) => b.placed - a.placed || (a.profile < b.profile ? -1 : 1));
    byId("policy-rows").replaceChildren(...sides.map((side) => el("tr", {},
      el("th", { scope: "row", text: side.profile || "no name" }),
      el("td", { class: "text", text: side.policy || "its own" }),
      el("td", { text: count(side.placed) }), el("td", { text: count(side.refused) }),
      el("td", { text: span(side.half) }), el("td", { text: span(side.most) }),
      el("td", { text: side.asked ? `${count((100 * side.agreed) / side.asked)} % of ${count(side.asked)}` : "–" }))),
      ...(sides.length ? [] : [el("tr", {}, el("td", { class: "text", colspan: String(HEADS.length), text: "Nobody has decided anything yet." }))]));
    const { shadow } = model.about;
    const asked = sides.reduce((sum, side) => sum + side.asked, 0);
    const differ = asked - sides.reduce((sum, side) => sum + side.agreed, 0);
    setText(byId("shadow-note"), !shadow
      ? "No shadow policy is asked what it would have done."
      : asked === 0
        ? `${shadow} is asked about every pod, just before it is bound, and binds nothing.`
        : `${shadow} was asked about ${plural(asked, "placement")} and would have chosen another node for ${count(differ)} of them. It binds nothing.`);
    const rows = model.decisions.filter((decision) => decision.differs).slice(-DIFFERENCES_SHOWN).reverse();
    byId("differences").hidden = rows.length === 0;
    byId("difference-rows").replaceChildren(...rows.map((decision) => el("tr", {},
      el("th", { scope: "row", text: decision.pod }), el("td", { class: "text", text: decision.node }), el("td", { class: "text", text: decision.advised || "nowhere" }))));
  }
}
