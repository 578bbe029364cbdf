// The map of groups: which texts were mixed, and in which slot each of them sat.

import { find, letters, make } from "./draw.js";

const HUES = 8; // page.css has as many colours, which colour-blind people can tell apart
const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };

// A group's hue, and a shade that grows with the slot.
export function tint(group, slot, size) {
  const shade = size > 1 ? 12 + (28 * slot) / (size - 1) : 26;
  return { "--hue": `var(--group-${group % HUES})`, "--shade": `${shade.toFixed(1)}%` };
}

export const place = (answer) => `Group ${letters(answer.group)}, slot ${answer.slot + 1}`;

export function showGroups(texts, answers, size, isChanged) {
  const groups = [];
  for (const answer of answers) (groups[answer.group] ??= [])[answer.slot] = answer;
  const list = find("groups");
  list.replaceChildren(...groups.map((members, group) => box(texts, members, group, size, isChanged)));
  list.onkeydown = move;
  list.querySelector("a").tabIndex = 0;
}

function box(texts, members, group, size, isChanged) {
  const cells = members.map((answer) => cell(texts[answer.text_number], answer, size, isChanged(answer)));
  for (let slot = members.length; slot < size; slot++) {
    cells.push(make("li", { class: "cell empty", title: `Slot ${slot + 1} is empty` }, make("span", { class: "hidden" }, "empty slot")));
  }
  const name = make("span", { class: "name" }, letters(group));
  return make("li", { class: "group", style: tint(group, 0, 1), "aria-label": `Group ${letters(group)}` }, name, make("ol", {}, cells));
}

// Only the first cell is a tab stop; arrow keys go on from there, because there can be 256 of them.
function cell(text, answer, size, changed) {
  const number = answer.text_number + 1;
  const says = `Text ${number}: ${place(answer)}${changed ? ", answer changed" : ""}`;
  const link = make("a", { href: `#text-${number}`, tabindex: -1, title: `${says}\n${text}`, "aria-label": says }, number, changed && make("i", {}, "≠"));
  return make("li", { class: changed ? "cell changed" : "cell", style: tint(answer.group, answer.slot, size) }, link);
}

function move(event) {
  if (!(event.key in STEPS)) return;
  event.preventDefault();
  const links = [...find("groups").querySelectorAll("a")];
  const next = links.indexOf(document.activeElement) + STEPS[event.key];
  const target = links[Math.max(0, Math.min(links.length - 1, next))];
  links.forEach((link) => { link.tabIndex = link === target ? 0 : -1; });
  target.focus();
}
