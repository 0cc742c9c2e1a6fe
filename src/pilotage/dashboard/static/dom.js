// Elements and text. Text from outside only ever becomes text: nothing here parses markup.

export const byId = (id) => document.getElementById(id);

export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") made.className = value;
    else if (name === "text") made.textContent = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node, name, value) {
  if (value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const count = (value) => whole.format(value);
export const decimal = (value) => one.format(value);
export const timeOfDay = (seconds) => clock.format(new Date(seconds * 1000));
export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
export const percent = (value) => (value === null || value === undefined ? "–" : `${decimal(value)} %`);

// A time span in the two digits that matter.
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 99.5) return `${seconds < 9.95 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 5970) return `${Math.round(seconds / 60)} min`;
  if (seconds < 356_400) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

export const natural = new Intl.Collator("en", { numeric: true }).compare;
