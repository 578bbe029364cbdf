// Wires the page together: texts in, answers out. What is shown lives in `state`; each part draws its own piece of it.

import { gist, showAnswers } from "./answers.js";
import { Problem, ask, useKey } from "./api.js";
import { count, duration, find, make, percent, whole } from "./draw.js";
import { hasNames, isTable, likelyColumn, oneLine, parseTable, readFile } from "./files.js";
import { showGroups } from "./groups.js";
import { sendTraffic, startLive } from "./live.js";
import { groupSize, setUpSizes } from "./size.js";

const MOST_TEXTS = 256;
const state = { info: null, examples: [], rows: null, seed: 0, last: null, before: null, ever: new Set(), shuffles: 0, running: null };

// Texts

function texts() {
  return find("texts").value.split("\n").map((line) => line.trim()).filter(Boolean);
}

function showCount() {
  const given = texts().length;
  const more = given > MOST_TEXTS ? `, the first ${MOST_TEXTS} are used` : "";
  find("count").textContent = `${count(given, "text")}${more}`;
}

function setTexts(lines) {
  find("texts").value = lines.join("\n");
  showCount();
}

// Files

async function openFile(file) {
  note("");
  find("table").hidden = true;
  try {
    const content = (await readFile(file)).replace(/^\uFEFF/, "");
    if (isTable(file)) openTable(file, parseTable(content));
    else useLines(content.split(/\r\n?|\n/), file.name);
  } catch (error) {
    note(error.message);
  }
}

function openTable(file, rows) {
  if (!rows.length) throw new Error(`${file.name} is empty.`);
  state.rows = rows;
  find("table-name").textContent = file.name;
  find("first-row").checked = hasNames(rows);
  fillColumns();
  find("column").value = likelyColumn(rows, find("first-row").checked);
  find("table").hidden = false;
  useColumn();
}

function fillColumns() {
  const named = find("first-row").checked;
  const chosen = find("column").value;
  find("column").replaceChildren(...state.rows[0].map((cell, number) =>
    make("option", { value: number }, named && cell.trim() ? cell : `column ${number + 1}: ${oneLine(cell).slice(0, 30)}`)));
  find("column").value = chosen || 0;
}

function useColumn() {
  const rows = state.rows.slice(find("first-row").checked ? 1 : 0);
  useLines(rows.map((row) => row[Number(find("column").value)] ?? ""), find("table-name").textContent);
}

function useLines(lines, name) {
  const found = lines.map(oneLine).filter(Boolean);
  setTexts(found.slice(0, MOST_TEXTS));
  note(found.length > MOST_TEXTS ? `${name} has ${whole(found.length)} texts; the first ${MOST_TEXTS} are here.` : `${count(found.length, "text")} from ${name}.`);
  start();
}

function note(words) {
  find("file-note").textContent = words;
  find("file-note").hidden = !words;
}

// Answers

// New texts or another group size: the texts are grouped in the order typed, and nothing is compared with before.
function start() {
  Object.assign(state, { seed: 0, before: null, ever: new Set(), shuffles: 0 });
  return answer();
}

async function changeNeighbours() {
  if (!state.last || isEdited()) return start();
  if (state.last.group_size === 1) {
    find("summary").textContent = `With one text per pass there are no neighbours, so nothing can change.${find("size").disabled ? "" : " Move the slider to mix texts."}`;
    return undefined;
  }
  state.seed += 1;
  state.before = state.last.answers;
  return answer();
}

// Whether the page shows answers to other texts, or to another group size, than those that are chosen now.
function isEdited() {
  const given = texts().slice(0, MOST_TEXTS);
  const { texts: shown, group_size: size } = state.last;
  return size !== groupSize() || given.length !== shown.length || given.some((text, number) => text !== shown[number]);
}

async function answer() {
  if (!state.info) return load(); // the server did not answer when the page was opened
  const given = texts().slice(0, MOST_TEXTS);
  problem("");
  if (!given.length) return problem("There is no text yet. Type one, or use the examples.");
  state.running?.abort();
  const running = (state.running = new AbortController());
  document.body.classList.add("busy");
  find("results").setAttribute("aria-busy", "true");
  try {
    const question = { texts: given, group_size: groupSize(), seed: state.seed };
    state.last = { texts: given, ...(await ask("playground/answers", question, running.signal)) };
    countChanges();
    show();
  } catch (error) {
    if (error.name !== "AbortError") failed(error);
  } finally {
    if (state.running === running) {
      document.body.classList.remove("busy");
      find("results").removeAttribute("aria-busy");
    }
  }
  return undefined;
}

const isMoved = (answer) => state.before !== null && gist(state.before[answer.text_number]) !== gist(answer);

function countChanges() {
  if (!state.before) return;
  state.shuffles += 1;
  state.last.answers.filter(isMoved).forEach((answer) => state.ever.add(answer.text_number));
}

function show() {
  const { answers, group_size: size } = state.last;
  find("summary").replaceChildren(...summary());
  showGroups(state.last.texts, answers, size, isMoved);
  showAnswers(state.last.texts, ordered(answers), size, state.before);
}

function ordered(answers) {
  const by = {
    typed: (answer) => [answer.text_number],
    group: (answer) => [answer.group, answer.slot],
    changed: (answer) => [isMoved(answer) ? 0 : answer.changed ? 1 : 2, answer.text_number],
  }[find("order").value];
  return [...answers].sort((a, b) => {
    const [left, right] = [by(a), by(b)];
    return left[0] - right[0] || (left[1] ?? 0) - (right[1] ?? 0);
  });
}

// Sentences on what just happened: how much was shared, what the neighbours changed, what it cost.
function summary() {
  const { answers, group_size: size, seconds, alone_seconds: alone, flips } = state.last;
  const total = answers.length;
  const groups = new Set(answers.map((answer) => answer.group)).size;
  const parts = [];
  if (state.before) {
    const moved = answers.filter(isMoved).length;
    parts.push(make("strong", {}, moved ? `New neighbours: ${count(moved, "answer")} of ${total} changed.` : `New neighbours: none of the ${total} answers changed.`));
    parts.push(` ${scoreMoves()}`);
    if (state.shuffles > 1) parts.push(` In ${state.shuffles} regroupings, ${count(state.ever.size, "text")} changed at least once.`);
  } else if (size === 1) {
    parts.push(make("strong", {}, `${count(total, "text")}, each in a pass of its own.`), " Nothing was mixed.");
  } else {
    parts.push(make("strong", {}, `${count(total, "text")} in ${count(groups, "group")} of up to ${size}.`));
    parts.push(` The model took ${duration(seconds)} for them; one text per pass took ${duration(alone)}.`);
  }
  if (size > 1) parts.push(flips ? ` ${count(flips, "answer")} ${flips === 1 ? "differs" : "differ"} from the one that the text gets alone.` : " Every answer is the one that the text gets alone.");
  return parts;
}

function scoreMoves() {
  const moves = state.last.answers.map((answer) => Math.abs(answer.score - state.before[answer.text_number].score)).filter(Number.isFinite);
  if (!moves.length) return "";
  return `Scores moved by ${(100 * moves.reduce((sum, move) => sum + move, 0) / moves.length).toFixed(1)} points on average.`;
}

// On a phone the answers are below the controls.
function scrollToAnswers() {
  if (matchMedia("(max-width: 939px)").matches && find("problem").hidden) find("results").scrollIntoView();
}

// When things go wrong

function problem(words) {
  find("problem").textContent = words;
  find("problem").hidden = !words;
}

function failed(error) {
  if (!(error instanceof Problem)) console.error(error);
  problem(error instanceof Problem ? error.message : "Something on this page went wrong. Reload it and try again.");
  if (error.status === 401) {
    if (find("key-form").hidden) problem(""); // the form says it all; a wrong key gets words of its own
    find("model").textContent = "Waiting for an API key";
    find("key-form").hidden = false;
    find("key").focus();
  }
}

// The page

async function load() {
  try {
    state.info = await ask("info");
    state.examples = (await ask("playground/examples")).texts;
  } catch (error) {
    failed(error);
    return;
  }
  problem("");
  find("key-form").hidden = true;
  const { info } = state;
  find("model").textContent = [info.model_id, info.about].filter(Boolean).join(": ");
  introduce(Math.max(...info.gears.map((gear) => gear.group_size)));
  setUpSizes(info, later(start));
  if (!find("texts").value.trim()) setTexts(state.examples);
  startLive();
  await start();
}

// The three sentences at the top, for what this server really does.
function introduce(largest) {
  find("capacity").textContent = `up to ${largest}`;
  find("mixes").hidden = largest === 1;
  find("mixes-not").hidden = largest > 1;
}

function later(work, milliseconds = 200) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, milliseconds);
  };
}

async function traffic() {
  const button = find("traffic");
  if (button.getAttribute("aria-disabled")) return;
  button.setAttribute("aria-disabled", "true");
  try {
    await sendTraffic(state.examples, (words) => { find("live-note").textContent = words; });
  } catch (error) {
    failed(error);
  }
  button.removeAttribute("aria-disabled");
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const other = theme === "dark" ? "light" : "dark";
  find("theme").textContent = other === "dark" ? "Dark" : "Light";
  find("theme").setAttribute("aria-label", `Switch to the ${other} page`);
}

function toggleTheme() {
  setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
}

function dropZone(zone) {
  let depth = 0;
  const highlight = (change) => { depth = change; zone.classList.toggle("over", depth > 0); };
  zone.addEventListener("dragenter", (event) => { event.preventDefault(); highlight(depth + 1); });
  zone.addEventListener("dragleave", () => highlight(depth - 1));
  zone.addEventListener("dragover", (event) => event.preventDefault());
  zone.addEventListener("drop", (event) => {
    highlight(0);
    if (!event.dataTransfer.files.length) return; // a piece of text: the field takes it
    event.preventDefault();
    openFile(event.dataTransfer.files[0]);
  });
}

find("texts").addEventListener("input", showCount);
find("texts").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) start();
});
find("answer").addEventListener("click", () => start().then(scrollToAnswers));
find("examples").addEventListener("click", () => { note(""); find("table").hidden = true; setTexts(state.examples); start(); });
find("open").addEventListener("click", () => find("file").click());
find("file").addEventListener("change", (event) => { if (event.target.files.length) openFile(event.target.files[0]); event.target.value = ""; });
find("column").addEventListener("change", useColumn);
find("first-row").addEventListener("change", () => { fillColumns(); useColumn(); });
find("neighbours").addEventListener("click", changeNeighbours);
find("order").addEventListener("change", () => state.last && show());
find("traffic").addEventListener("click", traffic);
find("theme").addEventListener("click", toggleTheme);
find("key-form").addEventListener("submit", (event) => { event.preventDefault(); useKey(find("key").value); load(); });
dropZone(find("drop"));
setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
load();
