// The table of answers: each text, where it was mixed, what it was told, and what it is told alone.

import { find, make, percent } from "./draw.js";
import { place, tint } from "./groups.js";

// What must differ for an answer to count as changed: its labels, not its scores.
export function gist(answer) {
  if (answer.spans) return JSON.stringify(answer.spans.map((span) => [span.start, span.end, span.entity_group]));
  return answer.label;
}

export function showAnswers(texts, answers, size, before) {
  const names = ["Text", "Mixed in", size > 1 ? "Answer in the group" : "Answer", "Answer alone"];
  const head = make("tr", { role: "row" }, names.map((name) => make("th", { role: "columnheader", scope: "col" }, name)));
  const rows = answers.map((answer) => row(texts[answer.text_number], answer, size, before?.[answer.text_number]));
  const table = make("table", { role: "table", "aria-labelledby": "answers-title" },
    make("thead", { role: "rowgroup" }, head), make("tbody", { role: "rowgroup" }, rows));
  find("answers").replaceChildren(table);
}

function row(text, answer, size, before) {
  const moved = before !== undefined && gist(before) !== gist(answer);
  const number = answer.text_number + 1;
  const classes = [moved && "moved", answer.changed && "differs"].filter(Boolean).join(" ");
  const cell = (name, ...children) => make("td", { role: "cell", "data-name": name }, children);
  return make("tr", { role: "row", id: `text-${number}`, class: classes, tabindex: -1, style: tint(answer.group, answer.slot, size) },
    cell("Text", make("div", { class: "numbered" }, make("span", { class: "number" }, number), marked(text, answer.spans))),
    cell("Mixed in", make("span", { class: "place" }, place(answer))),
    cell("Answer", told(answer), moved && make("p", { class: "badge" }, change(before, answer))),
    cell("Alone", answer.changed ? make("p", { class: "badge other" }, difference(answer)) : make("span", { class: "quiet same" }, answer.spans ? "the same" : short(answer.alone))));
}

// Text with its spans marked. Offsets count characters as Python does, so the text is cut into those first.
function marked(text, spans) {
  if (!spans) return make("span", { class: "text" }, text);
  const characters = Array.from(text);
  const parts = [];
  let end = 0;
  for (const span of spans) {
    parts.push(characters.slice(end, span.start).join(""));
    parts.push(make("mark", { "data-kind": span.entity_group, style: { "--hue": kindHue(span.entity_group) } },
      characters.slice(span.start, span.end).join(""), make("small", {}, span.entity_group)));
    end = span.end;
  }
  parts.push(characters.slice(end).join(""));
  return make("span", { class: "text" }, parts);
}

const kinds = [];
function kindHue(kind) {
  if (!kinds.includes(kind)) kinds.push(kind);
  return `var(--group-${(kinds.indexOf(kind) * 3) % 8})`;
}

function told(answer) {
  if (answer.spans) return make("span", { class: "spans" }, answer.spans.length ? listed(answer.spans) : "nothing found");
  const label = make("span", { class: "label" }, answer.label || "none of the labels");
  return make("div", { class: "told" }, label, typeof answer.score === "number" && scored(answer.score));
}

const isShare = (score) => score >= 0 && score <= 1;
const inNumbers = (score) => (isShare(score) ? percent(score) : score.toFixed(3)); // a regression has no percentages

function scored(score) {
  const words = make("span", { class: "score" }, inNumbers(score));
  const bar = make("span", { class: "bar", "aria-hidden": "true" }, make("span", { style: { width: percent(score) } }));
  return isShare(score) ? [words, bar] : [words];
}

const listed = (spans) => spans.map((span) => `${span.word} (${span.entity_group})`).join(", ");

function short(answer) {
  return `${answer.label || "none of the labels"}${typeof answer.score === "number" ? ` ${inNumbers(answer.score)}` : ""}`;
}

function change(before, answer) {
  return answer.spans ? `changed: ${spanChange(before.spans, answer.spans, "now", "no longer")}` : `changed: was ${short(before)}`;
}

function difference(answer) {
  return answer.spans ? `differs: ${spanChange(answer.spans, answer.alone.spans, "with", "without")}` : `differs: ${short(answer.alone)}`;
}

// Which spans are new and which are gone, by place and kind.
function spanChange(before, after, gains, loses) {
  const only = (some, others) => some.filter((span) => !others.some((other) => gist({ spans: [span] }) === gist({ spans: [other] })));
  const gained = only(after, before);
  const lost = only(before, after);
  return [gained.length && `${gains} ${listed(gained)}`, lost.length && `${loses} ${listed(lost)}`].filter(Boolean).join(", ");
}
