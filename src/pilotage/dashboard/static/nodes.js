// The node table: sorted, filtered, and only the rows that can be seen are elements.

import { byId, decimal, el, natural, plural, setAttribute, setText } from "./dom.js";
import { amount, classOf } from "./heat.js";

const ROW = 34; // pixels, as in the style sheet
const SPARE = 6; // rows beyond the edges

const COLUMNS = [
  { id: "name", title: "Node", value: (node) => node.name },
  { id: "condition", title: "Condition", value: (node) => node.condition },
  { id: "cpu", title: "CPU", value: (node) => node.cpu.share, bar: "cpu" },
  { id: "memory", title: "Memory GiB", value: (node) => node.memory.share, bar: "memory" },
  { id: "gpu", title: "GPU", value: (node) => (node.gpu.of ? node.gpu.share : -1), bar: "gpu" },
  { id: "devices", title: "Devices", value: (node) => Math.max(-1, ...node.devices.map((milli) => 1000 - milli)) },
  { id: "pods", title: "Pods", value: (node) => node.pods.used },
  { id: "model", title: "Model", value: (node) => node.model },
  { id: "zone", title: "Zone", value: (node) => node.zone },
];

const COMPARISON = /^(cpu|memory|gpu|pods)([<>])(\d+(?:\.\d+)?)$/;

export function filterOf(text) {
  const tests = text.toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
    const compared = COMPARISON.exec(word);
    if (!compared) return (node) => [node.name, node.condition, node.model, node.zone].some((t) => t.toLowerCase().includes(word));
    const [, what, sign, limit] = compared;
    const value = (node) => (what === "pods" ? node.pods.used : node[what].of ? node[what].share : NaN);
    return sign === "<" ? (node) => value(node) < Number(limit) : (node) => value(node) > Number(limit);
  });
  return (node) => tests.every((test) => test(node));
}

export class NodeTable {
  constructor(onOpen) {
    this.onOpen = onOpen;
    this.sort = { column: COLUMNS[0], down: false };
    this.filter = () => true;
    this.ordered = [];
    this.slots = [];
    this.flashing = new Map(); // node -> until when
    this.focus = -1;
    this.table = byId("node-table");
    this.body = byId("node-rows");
    this.scroller = byId("node-scroll");
    this.above = el("tr", { class: "room", "aria-hidden": "true" }, el("td", { colspan: String(COLUMNS.length) }));
    this.below = this.above.cloneNode(true);
    this.body.append(this.above, this.below);
    this.buildHeads();
    let due = false;
    const later = () => {
      if (due) return;
      due = true;
      requestAnimationFrame(() => {
        due = false;
        this.draw();
      });
    };
    this.scroller.addEventListener("scroll", later, { passive: true });
    new ResizeObserver(later).observe(this.scroller);
    this.scroller.addEventListener("keydown", (event) => this.press(event));
    byId("filter").addEventListener("input", (event) => {
      this.filter = filterOf(event.target.value);
      this.scroller.scrollTop = 0;
      this.arrange();
      this.draw();
    });
    document.addEventListener("keydown", (event) => {
      const typing = event.target.closest?.("input, textarea, select, dialog");
      if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      byId("filter").focus();
    });
  }

  buildHeads() {
    this.heads = COLUMNS.map((column) => {
      const button = el("button", { type: "button", text: column.title });
      button.addEventListener("click", () => this.sortBy(column));
      const head = el("th", { scope: "col", class: `col-${column.id}` }, button);
      byId("node-heads").append(head);
      return head;
    });
    this.markSort();
  }

  sortBy(column) {
    const figures = column.bar || column.id === "pods" || column.id === "devices"; // the largest are of interest first
    this.sort = { column, down: this.sort.column === column ? !this.sort.down : Boolean(figures) };
    this.markSort();
    this.arrange();
    this.draw();
  }

  markSort() {
    COLUMNS.forEach((column, k) => {
      const own = column === this.sort.column;
      setAttribute(this.heads[k], "aria-sort", own ? (this.sort.down ? "descending" : "ascending") : null);
    });
  }

  take(model, touched, flash) {
    this.model = model;
    if (flash && touched.length < 200) {
      const until = performance.now() + 1500;
      touched.forEach((name) => this.flashing.set(name, until));
    }
    this.arrange();
    this.draw();
  }

  arrange() {
    if (!this.model) return;
    const { column, down } = this.sort;
    const compare = (a, b) => {
      const [x, y] = [column.value(a), column.value(b)];
      const found = typeof x === "string" ? natural(x, y) : x - y;
      return (down ? -found : found) || natural(a.name, b.name);
    };
    this.ordered = [...this.model.nodes.values()].filter(this.filter).sort(compare);
    setAttribute(this.table, "aria-rowcount", this.ordered.length + 1);
    const all = this.model.nodes.size;
    setText(byId("shown"), this.ordered.length === all ? plural(all, "node") : `${plural(this.ordered.length, "node")} of ${all}`);
  }

  draw() {
    const height = this.scroller.clientHeight;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW) - SPARE);
    const last = Math.min(this.ordered.length, Math.ceil((this.scroller.scrollTop + height) / ROW) + SPARE);
    const wanted = Math.max(0, last - first);
    while (this.slots.length < wanted) this.addSlot();
    while (this.slots.length > wanted) this.slots.pop().row.remove();
    const now = performance.now();
    this.slots.forEach((slot, k) => this.fill(slot, first + k, now));
    this.above.firstChild.style.height = `${first * ROW}px`;
    this.below.firstChild.style.height = `${Math.max(0, this.ordered.length - last) * ROW}px`;
    this.above.hidden = first === 0;
    this.below.hidden = last >= this.ordered.length;
  }

  addSlot() {
    const name = el("button", { type: "button", class: "open" });
    name.addEventListener("click", () => this.onOpen(name.textContent));
    const cells = COLUMNS.map((column) => {
      if (column.id === "name") return el("th", { scope: "row" }, name);
      const cell = el("td", { class: `col-${column.id}` });
      if (column.bar) cell.append(el("span"), el("span", { class: "meter", "aria-hidden": "true" }, el("i")));
      return cell;
    });
    const row = el("tr", {}, ...cells);
    this.below.before(row);
    this.slots.push({ row, cells, name, node: null });
  }

  fill(slot, index, now) {
    const node = this.ordered[index];
    setAttribute(slot.row, "aria-rowindex", index + 2);
    const until = this.flashing.get(node.name);
    slot.row.classList.toggle("changed", until > now);
    if (until <= now) this.flashing.delete(node.name);
    if (slot.node === node) return;
    slot.node = node;
    setText(slot.name, node.name);
    slot.row.dataset.node = node.name;
    COLUMNS.forEach((column, k) => {
      const cell = slot.cells[k];
      if (column.bar) fillBar(cell, node[column.bar]);
      else if (column.id === "devices") fillDevices(cell, node.devices);
      else if (column.id === "pods") setText(cell, decimal(node.pods.used));
      else if (column.id === "condition") {
        setText(cell, node.condition);
        cell.classList.toggle("bad", node.condition !== "ready");
      } else if (column.id !== "name") setText(cell, node[column.id]);
    });
  }

  // Arrows go from row to row, wherever the table is scrolled to.
  press(event) {
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined || this.ordered.length === 0) return;
    event.preventDefault();
    const focused = this.slots.find((slot) => slot.name === document.activeElement);
    const from = focused ? this.ordered.indexOf(focused.node) : step > 0 ? -1 : 0;
    const to = Math.min(this.ordered.length - 1, Math.max(0, from + step));
    const head = this.table.tHead.offsetHeight;
    const top = to * ROW;
    const view = this.scroller;
    if (top < view.scrollTop) view.scrollTop = top;
    else if (top + ROW + head > view.scrollTop + view.clientHeight) view.scrollTop = top + ROW + head - view.clientHeight;
    this.draw();
    this.slots.find((slot) => slot.node === this.ordered[to])?.name.focus({ preventScroll: true });
  }
}

function fillBar(cell, figure) {
  const [text, meter] = cell.children;
  meter.hidden = figure.of === 0;
  setText(text, figure.of === 0 && figure.used === 0 ? "–" : `${decimal(figure.used)} / ${decimal(figure.of)}`);
  const bar = meter.firstChild;
  bar.style.width = `${Math.min(100, figure.share)}%`;
  bar.className = `heat-${classOf(figure.share)}`;
}

function fillDevices(cell, devices) {
  while (cell.childElementCount > devices.length) cell.lastChild.remove();
  while (cell.childElementCount < devices.length) cell.append(el("i", { class: "device", "aria-hidden": "true" }));
  devices.forEach((milli, d) => {
    cell.children[d].className = `device heat-${classOf(milli / 10)}`;
    setAttribute(cell.children[d], "title", `device ${d}: ${milli / 10} %`);
  });
  setAttribute(cell, "aria-label", devices.length ? devices.map((milli) => `${milli / 10} %`).join(", ") : "none");
}

export class NodeDialog {
  constructor(model) {
    this.model = model;
    this.dialog = byId("node-dialog");
    byId("node-dialog-close").addEventListener("click", () => this.dialog.close());
  }

  async open(name) {
    const node = this.model.nodes.get(name);
    if (!node) return;
    byId("node-dialog-head").textContent = name;
    const facts = [["Condition", node.condition], ["CPU", amount(node.cpu, "CPU")], ["Memory", amount(node.memory, "GiB")]];
    if (node.gpu.of) {
      facts.push(["GPU", `${amount(node.gpu, "GPU")}${node.model ? `, ${node.model}` : ""}`]);
      facts.push(["Devices in use", node.devices.map((milli, d) => `${d}: ${milli / 10} %`).join("  ·  ")]);
    }
    facts.push(["Pods", `${node.pods.used} of ${node.pods.of}`]);
    if (node.zone) facts.push(["Zone", node.zone]);
    byId("node-facts").replaceChildren(...facts.flatMap(([k, v]) => [el("dt", { text: k }), el("dd", { text: v })]));
    byId("node-pods").replaceChildren(el("tr", {}, el("td", { colspan: "4", text: "asking" })));
    if (!this.dialog.open) this.dialog.showModal();
    let rows;
    try {
      const answer = await fetch(`api/nodes/${encodeURIComponent(name)}`);
      rows = answer.ok ? await answer.json() : null;
    } catch {
      rows = null;
    }
    const said = rows === null ? "no answer" : rows.length === 0 ? "no pods" : "";
    const made = (rows ?? []).map((pod) =>
      el("tr", {}, el("th", { scope: "row", text: pod.pod }), el("td", { text: pod.request }), el("td", { text: pod.devices }), el("td", { text: pod.profile })));
    byId("node-pods").replaceChildren(...made, ...(said ? [el("tr", {}, el("td", { colspan: "4", text: said }))] : []));
  }
}
