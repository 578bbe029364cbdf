// The live charts: load, group size and latency of the last minute, drawn as plain SVG.

import { ask } from "./api.js";
import { count, draw, duration, find, make, whole } from "./draw.js";

const SECONDS = 60;
const EVERY = 1000; // milliseconds
const HEIGHT = 100;

const CHARTS = [
  {
    name: "Load",
    unit: (top) => `${whole(top)} per second`,
    least: 10,
    series: [
      { class: "bars", value: (second) => second.texts },
      { class: "line dashed", value: (second) => second.queue },
    ],
    legend: "Bars: texts answered per second. Dashed: texts that wait.",
    now: (stats) => `${whole(stats.texts_per_second)} texts per second, ${whole(stats.queue)} waiting`,
  },
  {
    name: "Group size",
    unit: (top) => count(top, "text"),
    least: 2,
    series: [{ class: "bars second", value: (second) => second.group_size }],
    legend: "The largest group size that the server used in each second.",
    now: (stats) => {
      const last = stats.history.at(-1);
      return last && last.age < 3 ? `${count(last.group_size, "text")} per pass` : "idle";
    },
  },
  {
    name: "Latency",
    unit: (top) => duration(top),
    least: 0.01,
    series: [
      { class: "line", value: (second) => second.p50 },
      { class: "line dashed third", value: (second) => second.p95 },
    ],
    legend: "From arrival to answer. Solid: half of the texts are faster. Dashed: 95% are faster.",
    now: (stats) => (stats.p50 === null ? "no texts in the last minute" : `half within ${duration(stats.p50)}, 95% within ${duration(stats.p95)}`),
  },
];

let started = false;

export function startLive() {
  if (started) return;
  started = true;
  const charts = CHARTS.map((chart) => ({ ...chart, ...frame(chart) }));
  find("live").replaceChildren(...charts.map((chart) => chart.figure));
  let failed = false;
  const tick = async () => {
    if (!document.hidden) {
      try {
        const stats = await ask("playground/stats");
        charts.forEach((chart) => update(chart, stats));
        failed = false;
      } catch (error) {
        if (!failed) charts.forEach((chart) => { chart.value.textContent = "no connection"; });
        failed = true;
        if (error.status === 401) { started = false; return; } // until there is a key
      }
    }
    setTimeout(tick, failed ? 5 * EVERY : EVERY);
  };
  tick();
}

function frame(chart) {
  const picture = draw("svg", { viewBox: `0 0 ${SECONDS} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  const value = make("span", { class: "value" }, "…");
  const top = make("span", { class: "top" });
  const figure = make("figure", {},
    make("figcaption", {}, make("b", {}, chart.name), value),
    make("div", { class: "plot" }, picture, top),
    make("div", { class: "axis", "aria-hidden": "true" }, make("span", {}, "60 s ago"), make("span", {}, "now")),
    make("p", { class: "quiet small" }, chart.legend));
  return { figure, picture, value, top };
}

function update(chart, stats) {
  chart.value.textContent = chart.now(stats);
  const values = stats.history.flatMap((second) => chart.series.map((line) => line.value(second) ?? 0));
  const top = Math.max(chart.least, ...values);
  chart.top.textContent = chart.unit(top);
  chart.picture.replaceChildren(...chart.series.flatMap((line) => shapes(line, stats.history, top)));
}

const x = (second) => SECONDS - 1 - second.age;
const y = (value, top) => HEIGHT - (0.86 * HEIGHT * value) / top;

function shapes(line, history, top) {
  const seen = history.filter((second) => second.age < SECONDS && line.value(second) !== null);
  if (line.class.startsWith("bars")) {
    return seen.map((second) => draw("rect", {
      class: line.class, x: x(second) + 0.1, width: 0.8, y: y(line.value(second), top), height: (0.86 * HEIGHT * line.value(second)) / top,
    }));
  }
  // One path per stretch of neighbouring seconds; a second by itself is a dot, which is a line of no length.
  const stretches = [];
  for (const second of seen) {
    const before = stretches.at(-1)?.at(-1);
    if (before && before.age - second.age <= 1) stretches.at(-1).push(second);
    else stretches.push([second]);
  }
  return stretches.map((part) => {
    const points = part.map((second) => `${x(second) + 0.5} ${y(line.value(second), top)}`);
    return draw("path", { class: line.class, d: `M${points.join("L")}${points.length === 1 ? "h0" : ""}` });
  });
}

// Rising traffic, in six steps of two seconds: one text at a time at first, and large batches at the end.
export async function sendTraffic(texts, told) {
  const steps = [1, 8, 32, 64, 128, 256];
  const started = performance.now();
  let answered = 0;
  let refused = 0;
  for (const [number, size] of steps.entries()) {
    told(`Step ${number + 1} of ${steps.length}: requests of ${count(size, "text")}.`);
    const end = performance.now() + 2000;
    const batch = Array.from({ length: size }, (_, i) => texts[i % texts.length]);
    const user = async () => {
      while (performance.now() < end) {
        try {
          await ask("predict", { inputs: batch.map((text) => [text]) });
          answered += size;
        } catch (error) {
          if (error.status !== 429) throw error;
          refused += 1;
          await new Promise((resolve) => setTimeout(resolve, 250));
        }
      }
    };
    await Promise.all(Array.from({ length: 5 }, user));
  }
  const seconds = Math.round((performance.now() - started) / 1000);
  told(`${whole(answered)} texts were answered in ${seconds} seconds${refused ? `, and ${count(refused, "request")} had to wait` : ""}. Look at how the group size followed the load.`);
}
