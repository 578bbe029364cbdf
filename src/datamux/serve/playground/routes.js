// Lists the routes of the server, from its OpenAPI document.

import { find, make } from "./draw.js";

function example(operation) {
  const content = operation.requestBody?.content?.["application/json"];
  return Object.values(content?.examples ?? {})[0]?.value;
}

function curl(method, path, body) {
  const address = new URL(path.slice(1), location.href);
  if (body === undefined) return `curl ${address}`;
  const text = JSON.stringify(body).replaceAll("'", "'\\''");
  return `curl ${address} -H 'content-type: application/json' \\\n  -d '${text}'`;
}

function card(method, path, operation) {
  const statuses = Object.entries(operation.responses ?? {}).filter(([status]) => status !== "200");
  return make("section", { class: "card route" },
    make("h2", {}, make("code", {}, `${method.toUpperCase()} ${path}`)),
    make("p", {}, operation.summary ?? ""),
    make("pre", { tabindex: "0" }, make("code", {}, curl(method, path, example(operation)))),
    statuses.length > 0 && make("details", {},
      make("summary", {}, "When something is wrong"),
      make("dl", {}, statuses.map(([status, { description }]) => [make("dt", {}, status), make("dd", {}, description)]))));
}

try {
  const answer = await fetch("openapi.json");
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  const document_ = await answer.json();
  find("about").textContent = document_.info.description.replaceAll("`", "");
  for (const [path, operations] of Object.entries(document_.paths)) {
    for (const [method, operation] of Object.entries(operations)) find("routes").append(card(method, path, operation));
  }
} catch (error) {
  find("problem").textContent = `The list of routes could not be read: ${error.message}`;
  find("problem").hidden = false;
}
