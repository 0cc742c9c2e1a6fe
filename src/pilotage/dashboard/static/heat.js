// Heat maps on canvas: a cell per node for CPU and memory, a cell per device for GPUs. Classes instead of a continuous
// scale, so that the legend can count them and eyes can tell them apart.

import { byId, count, decimal, el, natural, setText } from "./dom.js";

const CLASSES = [
  { label: "0 %", upTo: 0 },
  { label: "to 25 %", upTo: 25 },
  { label: "to 50 %", upTo: 50 },
  { label: "to 75 %", upTo: 75 },
  { label: "below 100 %", upTo: 99.999 },
  { label: "100 %", upTo: 100.001 },
  { label: "over", upTo: Infinity },
];

export const classOf = (share) => CLASSES.findIndex((one) => share <= one.upTo);

const MAPS = [
  { id: "cpu", title: "CPU", cells: (node) => [node.cpu.share], say: (node) => amount(node.cpu, "CPU") },
  { id: "memory", title: "Memory", cells: (node) => [node.memory.share], say: (node) => amount(node.memory, "GiB") },
  {
    id: "gpu",
    title: "GPU devices",
    cells: (node) => node.devices.map((milli) => milli / 10),
    say: (node) => `${amount(node.gpu, "GPU")}; by device ${node.devices.map((milli) => `${Math.round(milli / 10)} %`).join(", ")}`,
  },
];

export const amount = ({ used, of, share }, unit) =>
  `${decimal(used)} of ${decimal(of)} ${unit}${Number.isFinite(share) ? ` (${Math.round(share)} %)` : ""}`;

const GAP = 1;
const MARGIN = 3; // pixels around a map, so that the outline of a chosen cell is seen
const DEVICES_GAP = 5;
const SMALLEST = 5;
const LARGEST = 16;
const TALLEST = 300; // pixels, before cells shrink

export class HeatMaps {
  constructor(onOpen) {
    this.onOpen = onOpen;
    this.maps = MAPS.map((map) => this.build(map));
    this.nodes = [];
    this.order = []; // their names
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(byId("maps"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  build(map) {
    const head = el("h3", { text: map.title, id: `map-${map.id}` });
    const canvas = el("canvas", {
      tabindex: "0",
      role: "application",
      "aria-roledescription": "heat map",
      "aria-labelledby": `map-${map.id}`,
      "aria-describedby": `legend-${map.id}`,
    });
    const legend = el("ul", { class: "legend", id: `legend-${map.id}`, "aria-label": `${map.title}: cells by share in use` });
    const items = CLASSES.map((one, k) => {
      const number = el("b", { text: "0" });
      const item = el("li", {}, el("span", { class: `swatch heat-${k}`, "aria-hidden": "true" }), `${one.label} `, number);
      legend.append(item);
      return { item, number };
    });
    const marks = Object.fromEntries([["not ready", "\u2715"], ["cordoned", "\u2571"]].map(([condition, sign]) => {
      const number = el("b", { text: "0" });
      const item = el("li", {}, el("span", { class: "sign", "aria-hidden": "true", text: sign }), `${condition} `, number);
      legend.append(item);
      return [condition, { item, number }];
    }));
    const said = el("p", { class: "fine said", "aria-live": "polite" });
    const part = el("div", { class: `map map-${map.id}` }, head, canvas, legend, said);
    byId("maps").append(part);
    const built = { ...map, canvas, items, marks, said, part, nodes: [], cursor: -1 };
    canvas.addEventListener("pointermove", (event) => this.point(built, event));
    canvas.addEventListener("pointerleave", () => this.choose(built, -1));
    canvas.addEventListener("click", () => built.cursor >= 0 && this.onOpen(built.nodes[built.cursor].name));
    canvas.addEventListener("keydown", (event) => this.press(built, event));
    canvas.addEventListener("blur", () => this.choose(built, -1));
    return built;
  }

  take(model, nodeSet) {
    if (nodeSet || this.nodes.length !== model.nodes.size) {
      this.order = [...model.nodes.keys()].sort(natural);
    }
    this.nodes = this.order.map((name) => model.nodes.get(name));
    this.draw();
  }

  draw() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    this.colours = { heat: CLASSES.map((_, k) => colour(`--heat-${k}`)), mark: colour("--mark"), ink: colour("--ink") };
    for (const map of this.maps) {
      map.nodes = map.id === "gpu" ? this.nodes.filter((node) => node.devices.length) : this.nodes;
      map.part.hidden = map.nodes.length === 0;
      if (!map.part.hidden) this.drawMap(map);
    }
  }

  drawMap(map) {
    const width = Math.max(60, Math.floor(map.part.clientWidth));
    const devices = Math.max(...map.nodes.map((node) => map.cells(node).length));
    const layout = arrange(map.nodes.length, devices, width - 2 * MARGIN);
    Object.assign(map, layout);
    const ratio = devicePixelRatio || 1;
    const height = layout.rows * (layout.cell + GAP) + 2 * MARGIN;
    if (map.canvas.width !== Math.round(width * ratio) || map.canvas.height !== Math.round(height * ratio)) {
      map.canvas.width = Math.round(width * ratio);
      map.canvas.height = Math.round(height * ratio);
      map.canvas.style.width = `${width}px`;
      map.canvas.style.height = `${height}px`;
    }
    const pen = map.canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const counts = CLASSES.map(() => 0);
    map.nodes.forEach((node, n) => {
      const { x, y } = place(map, n);
      const cells = map.cells(node);
      cells.forEach((share, d) => {
        const k = classOf(share);
        counts[k] += 1;
        pen.fillStyle = this.colours.heat[k];
        pen.fillRect(x + d * (map.cell + GAP), y, map.cell, map.cell);
      });
      if (node.condition !== "ready") mark(pen, x, y, { ...map, tile: cells.length * (map.cell + GAP) - GAP }, node.condition, this.colours.mark);
    });
    if (map.cursor >= 0 && map.cursor < map.nodes.length) {
      const { x, y } = place(map, map.cursor);
      pen.strokeStyle = this.colours.ink;
      pen.lineWidth = 2;
      pen.strokeRect(x - 1.5, y - 1.5, map.tile + 3, map.cell + 3);
    }
    for (const [condition, { item, number }] of Object.entries(map.marks)) {
      const marked = map.nodes.filter((node) => node.condition === condition).length;
      setText(number, count(marked));
      item.hidden = marked === 0;
    }
    map.items.forEach(({ item, number }, k) => {
      setText(number, count(counts[k]));
      item.hidden = counts[k] === 0;
    });
  }

  point(map, event) {
    const box = map.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - MARGIN) / map.stride);
    const row = Math.floor((event.clientY - box.top - MARGIN) / (map.cell + GAP));
    const n = row * map.columns + column;
    this.choose(map, column >= 0 && column < map.columns && n >= 0 && n < map.nodes.length ? n : -1);
  }

  press(map, event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -map.columns, ArrowDown: map.columns }[event.key];
    const last = map.nodes.length - 1;
    if (step !== undefined) this.choose(map, Math.min(last, Math.max(0, map.cursor < 0 ? 0 : map.cursor + step)));
    else if (event.key === "Home") this.choose(map, 0);
    else if (event.key === "End") this.choose(map, last);
    else if (event.key === "Enter" && map.cursor >= 0) this.onOpen(map.nodes[map.cursor].name);
    else return;
    event.preventDefault();
  }

  choose(map, n) {
    if (map.cursor === n) return;
    map.cursor = n;
    const node = map.nodes[n];
    setText(map.said, node ? `${node.name}: ${map.say(node)}${node.condition === "ready" ? "" : `, ${node.condition}`}` : "");
    if (!map.part.hidden) this.drawMap(map);
  }
}

// The largest cells with which all tiles fit into the wanted height.
function arrange(nodes, devices, width) {
  const between = devices > 1 ? DEVICES_GAP : 0;
  for (let cell = LARGEST; ; cell -= 1) {
    const tile = devices * (cell + GAP) - GAP;
    const stride = tile + GAP + between;
    const columns = Math.max(1, Math.floor((width + between) / stride));
    const rows = Math.ceil(nodes / columns);
    if (rows * (cell + GAP) <= TALLEST || cell <= SMALLEST) return { cell, tile, stride, columns, rows };
  }
}

const place = (map, n) => ({
  x: MARGIN + (n % map.columns) * map.stride,
  y: MARGIN + Math.floor(n / map.columns) * (map.cell + GAP),
});

// Not by colour alone: a cross for nodes that are not ready, a stroke for cordoned ones.
function mark(pen, x, y, map, condition, colour) {
  pen.strokeStyle = colour;
  pen.lineWidth = 1.5;
  for (let left = x; left < x + map.tile; left += map.cell + GAP) {
    pen.beginPath();
    pen.moveTo(left, y + map.cell);
    pen.lineTo(left + map.cell, y);
    if (condition === "not ready") {
      pen.moveTo(left, y);
      pen.lineTo(left + map.cell, y + map.cell);
    }
    pen.stroke();
  }
}
