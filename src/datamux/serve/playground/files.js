// Reads csv and txt files in the browser: nothing is sent until the user asks for answers.

export const MOST_BYTES = 5_000_000;
const NAMES = ["text", "sentence", "review", "comment", "content", "body", "message", "title"];

// UTF-8 if the file is that; otherwise what old spreadsheets write.
export async function readFile(file) {
  if (file.size > MOST_BYTES) throw new Error(`${file.name} is larger than 5 MB. Try a smaller part of it.`);
  const bytes = await file.arrayBuffer();
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}

export const isTable = (file) => /\.(csv|tsv)$/i.test(file.name);

// Rows of cells. Quoted cells may hold separators, line breaks and doubled quotes.
export function parseTable(given) {
  const content = given.replace(/\r\n?/g, "\n");
  const separator = findSeparator(content);
  const rows = [];
  let row = [];
  let cell = "";
  let quoted = false;
  const endCell = () => { row.push(cell); cell = ""; };
  const endRow = () => { endCell(); if (row.some((one) => one.trim())) rows.push(row); row = []; };
  for (let i = 0; i < content.length; i++) {
    const letter = content[i];
    if (quoted && letter === '"' && content[i + 1] === '"') { cell += '"'; i++; }
    else if (letter === '"' && (quoted || cell === "")) quoted = !quoted;
    else if (quoted) cell += letter;
    else if (letter === separator) endCell();
    else if (letter === "\n") endRow();
    else cell += letter;
  }
  if (cell || row.length) endRow();
  return rows;
}

function findSeparator(content) {
  const line = content.split("\n", 1)[0];
  const found = [",", "\t", ";"].map((one) => [line.split(one).length, one]);
  return found.reduce((best, next) => (next[0] > best[0] ? next : best))[1];
}

// The first row names the columns if one of its cells is a usual name, or if it is much shorter than the others.
export function hasNames(rows) {
  if (rows.length < 2) return false;
  if (rows[0].some((cell) => NAMES.includes(cell.trim().toLowerCase()))) return true;
  return 3 * longest(rows.slice(0, 1)) < longest(rows.slice(1, 20));
}

// The column with the texts: one with a usual name, or else the one with the longest cells.
export function likelyColumn(rows, named) {
  const names = named ? rows[0].map((cell) => cell.trim().toLowerCase()) : [];
  for (const name of NAMES) if (names.includes(name)) return names.indexOf(name);
  const sizes = rows[0].map((_, column) => rows.slice(0, 50).reduce((sum, row) => sum + (row[column] ?? "").length, 0));
  return sizes.indexOf(Math.max(...sizes));
}

const longest = (rows) => Math.max(...rows.flat().map((cell) => cell.length));

export const oneLine = (text) => text.replace(/\s+/g, " ").trim();
