// Makes elements. Every text goes in as a text node, so nothing that a user types is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "style") for (const [property, given] of Object.entries(value)) element.style.setProperty(property, given);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const draw = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
export const find = (id) => document.getElementById(id);

export const whole = (number) => Math.round(number).toLocaleString("en");
export const percent = (share) => `${(100 * share).toFixed(1)}%`;
export const count = (number, one, many = `${one}s`) => `${whole(number)} ${number === 1 ? one : many}`;

export function duration(seconds) {
  if (seconds >= 1) return `${seconds.toFixed(1)} s`;
  return seconds >= 0.01 ? `${Math.round(1000 * seconds)} ms` : `${(1000 * seconds).toFixed(1)} ms`;
}

// A, B, ... Z, AA, AB ...: groups have letters, because texts and slots already have numbers.
export function letters(group) {
  const last = String.fromCharCode(65 + (group % 26));
  return group < 26 ? last : letters(Math.floor(group / 26) - 1) + last;
}
