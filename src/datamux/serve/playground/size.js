// The slider: how many texts share a pass, and what each choice was measured to buy.

import { draw, find, make, percent, whole } from "./draw.js";

let stops = [];
let about = {};

export function setUpSizes(info, changed) {
  about = info;
  stops = info.gears.map((gear) => ({ ...gear, speed: gear.texts_per_second })).sort((a, b) => a.group_size - b.group_size);
  const slider = find("size");
  slider.max = stops.length - 1;
  slider.value = Math.min(stops.length - 1, Math.max(0, stops.findIndex((stop) => stop.group_size >= 5)));
  slider.disabled = stops.length < 2;
  slider.oninput = () => { show(); changed(); };
  slider.parentElement.style.setProperty("--stops", stops.length);
  show();
}

export const groupSize = () => stops[Number(find("size").value)].group_size;

function show() {
  const chosen = Number(find("size").value);
  const stop = stops[chosen];
  find("size-now").textContent = stop.group_size;
  find("size").setAttribute("aria-valuetext", words(stop));
  find("stops").replaceChildren(...stops.map((each, number) => column(each, number === chosen)));
  find("buys").replaceChildren(...tile(scoreName(), ...scoreWords(stop)), ...tile("Texts per second", ...speedWords(stop)), ...tile("Answers that flip", ...flipWords(stop)));
  find("score-name").textContent = scoreName();
  find("buys-note").textContent = note();
}

function tile(name, value, remark) {
  return [make("div", {}, make("dt", {}, name), make("dd", {}, make("b", {}, value), make("span", {}, remark)))];
}

const scoreName = () => ({ accuracy: "Accuracy", f1: "F1 score" })[about.metric] ?? "Measured score";
const known = (number) => typeof number === "number";

function scoreWords(stop) {
  if (!known(stop.score)) return ["unknown", "Nobody has measured it for this model."];
  const first = stops[0];
  if (stop === first || !known(first.score)) return [percent(stop.score), "with one text per pass"];
  const points = 100 * (stop.score - first.score);
  const size = Math.abs(points).toFixed(1);
  if (size === "0.0") return [percent(stop.score), "the same as one per pass"];
  return [percent(stop.score), `${size} points ${points < 0 ? "below" : "above"} one per pass`];
}

function speedWords(stop) {
  if (!known(stop.speed)) return ["unknown", "Nobody has measured it for this model."];
  const first = stops[0];
  if (stop === first || !known(first.speed)) return [whole(stop.speed), "with one text per pass"];
  return [whole(stop.speed), `${(stop.speed / first.speed).toFixed(1)} times one per pass`];
}

function flipWords(stop) {
  if (stop.group_size === 1) return ["none", "no neighbours, so nothing to change them"];
  if (!known(stop.share_that_flips)) return ["unknown", "Nobody has measured it for this model."];
  return [percent(stop.share_that_flips), "when only their neighbours change"];
}

function words(stop) {
  const score = known(stop.score) ? `${scoreName()} ${percent(stop.score)}` : `${scoreName()} unknown`;
  const speed = known(stop.speed) ? `${whole(stop.speed)} texts per second` : "speed unknown";
  return `${stop.group_size} per pass: ${score}, ${speed}`;
}

function note() {
  if (stops.length < 2) return "This server answers one text per pass, so there is nothing to choose.";
  if (!stops.some((stop) => known(stop.score) || known(stop.speed))) {
    return "This model came without measurements. You can still compare its answers below.";
  }
  const where = about.measured_on ? ` on ${about.measured_on}` : "";
  return `Measured once for this model${where}, on another machine: here the speed may differ, but the ratio should be similar.`;
}

// One stop of the slider: a bar as high as its throughput, and a dot as high as its score.
function column(stop, chosen) {
  const speeds = stops.map((each) => each.speed).filter(known);
  const scores = stops.map((each) => each.score).filter(known);
  const height = known(stop.speed) ? 4 + (34 * stop.speed) / Math.max(...speeds) : 0;
  const low = Math.min(...scores) - 0.005;
  const high = Math.max(...scores) + 0.005;
  const y = known(stop.score) ? 8 + (24 * (high - stop.score)) / (high - low) : 0;
  const picture = draw("svg", { viewBox: "0 0 40 44" },
    draw("rect", { x: 9, y: 44 - height, width: 22, height, rx: 2, class: "speed" }),
    known(stop.score) && draw("circle", { cx: 20, cy: y, r: 4.5, class: "score" }));
  return make("div", { class: chosen ? "stop chosen" : "stop" }, picture, make("span", {}, stop.group_size));
}
