// Asks the server, and says in words what went wrong. The API key lives here, in memory, and nowhere else.

let key = "";

export class Problem extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

export function useKey(given) {
  key = given.trim();
}

export async function ask(path, body = undefined, signal = undefined) {
  const headers = { accept: "application/json" };
  if (key) headers.authorization = `Bearer ${key}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    const options = { headers, signal, cache: "no-store", body: body === undefined ? undefined : JSON.stringify(body) };
    response = await fetch(path, { method: body === undefined ? "GET" : "POST", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server does not answer. Is it still running?", 0);
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Problem(inWords(response, answer), response.status);
  return answer;
}

function inWords(response, answer) {
  const said = typeof answer.error === "string" ? answer.error : "";
  const wait = Number(response.headers.get("retry-after"));
  const known = {
    401: key ? "The server does not know this API key. Check it and try again." : "This server wants an API key.",
    413: "That is more text than the server takes at once. Try fewer or shorter texts.",
    429: `The server is busy. Try again ${wait ? `in ${wait} seconds` : "in a moment"}.`,
    503: "The server cannot answer at the moment. Try again soon.",
    504: "The server took too long. Try fewer texts, or try again.",
  };
  if (known[response.status]) return known[response.status];
  return `The server could not answer this${said ? `: ${said}` : ` (error ${response.status})`}.`;
}
