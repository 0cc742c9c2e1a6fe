// What is known: tables by key, brought up to date by the messages of the server.

const MIB_PER_GIB = 1024;
const DECISIONS_KEPT = 400;
const SAMPLES_KEPT = 900;

export function readNode([name, condition, model, zone, cpu, cpuUsed, mib, mibUsed, pods, podsUsed, devices]) {
  const gpu = devices.length;
  const gpuUsed = devices.reduce((sum, milli) => sum + milli, 0) / 1000;
  return {
    name, condition, model, zone, devices,
    cpu: { used: cpuUsed / 1000, of: cpu / 1000, share: share(cpuUsed, cpu) },
    memory: { used: mibUsed / MIB_PER_GIB, of: mib / MIB_PER_GIB, share: share(mibUsed, mib) },
    gpu: { used: gpuUsed, of: gpu, share: share(gpuUsed, gpu) },
    pods: { used: podsUsed, of: pods, share: share(podsUsed, pods) },
  };
}

const share = (used, of) => (of > 0 ? (100 * used) / of : used > 0 ? Infinity : 0);

const readPending = ([uid, pod, profile, request, since, reason]) => ({ uid, pod, profile, request, since, reason });

export const readDecision = ([number, time, pod, profile, policy, request, node, devices, message, waited, advised]) => ({
  number, time, pod, profile, policy, request, node, devices, message, waited, advised,
  differs: advised !== null && node !== "" && advised !== node,
});

const readSide = ([profile, policy, placed, refused, half, most, asked, agreed]) => ({
  profile, policy, placed, refused, half, most, asked, agreed,
});

function apply(table, changes, read) {
  const touched = [];
  for (const row of changes.set ?? []) {
    table.set(row[0], read(row));
    touched.push(row[0]);
  }
  for (const key of changes.gone ?? []) table.delete(key);
  return touched;
}

export class Model {
  constructor() {
    this.clear();
  }

  clear() {
    this.nodes = new Map();
    this.pending = new Map();
    this.sides = new Map();
    this.decisions = []; // oldest first
    this.curves = [];
    this.about = { title: "", shadow: "", problem: "", waiting: 0, reasons: [] };
    this.time = 0;
  }

  // Returns what changed: names of parts, and the nodes that were touched.
  take(kind, message) {
    if (kind === "state") this.clear();
    this.time = message.time;
    const changed = { parts: new Set(), nodes: [], nodeSet: false };
    if (message.nodes) {
      const before = this.nodes.size;
      changed.nodes = apply(this.nodes, message.nodes, readNode);
      changed.nodeSet = this.nodes.size !== before || Boolean(message.nodes.gone);
      changed.parts.add("nodes");
    }
    if (message.pending) {
      apply(this.pending, message.pending, readPending);
      changed.parts.add("pending");
    }
    if (message.policies) {
      apply(this.sides, message.policies, readSide);
      changed.parts.add("policies");
    }
    if (message.decisions) {
      this.decisions.push(...message.decisions.map(readDecision));
      this.decisions.splice(0, this.decisions.length - DECISIONS_KEPT);
      changed.parts.add("decisions");
    }
    if (message.curves) {
      this.curves.push(...message.curves);
      this.curves.splice(0, this.curves.length - SAMPLES_KEPT);
      changed.parts.add("curves");
    }
    if (message.about) {
      this.about = message.about;
      changed.parts.add("about");
    }
    if (kind === "state") ["nodes", "pending", "policies", "decisions", "curves", "about"].forEach((p) => changed.parts.add(p));
    return changed;
  }
}
