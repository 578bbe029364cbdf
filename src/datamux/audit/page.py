"""The report of an audit as one HTML file: it asks for nothing from outside."""

from collections.abc import Sequence
from html import escape
from typing import Any

from datamux.audit.advice import part
from datamux.audit.svg import bars, lines

STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.headline { font-size: 1.1rem; border-left: 4px solid #2563eb; padding-left: 1rem; }
.charts { display: flex; flex-wrap: wrap; gap: 1rem; }
svg { font: 11px system-ui, sans-serif; max-width: 100%; height: auto; }
svg .axis { fill: currentColor; } .grid { stroke: currentColor; opacity: .15; }
.level { stroke: currentColor; stroke-dasharray: 5 4; }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem .2rem 0; text-align: right; }
td:first-child, th:first-child { text-align: left; } .about { opacity: .75; }
"""


def as_html(record: dict[str, Any]) -> str:
    """The whole page."""
    results = record["results"]
    advice = "".join(f"<li>{escape(sentence)}</li>" for sentence in record["advice"])
    splits = " and ".join(record["splits"])
    about = f"{record['rows']} rows of {record['task']} ({splits}), {record['date']}, commit {record['commit'][:7]}"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Audit of {escape(record['model'])}</title><style>{STYLE}</style></head><body>"
        f"<h1>Audit of {escape(record['model'])}</h1><p class='about'>{escape(about)}</p>"
        f"<p class='headline'>{escape(record['headline'])}</p><h2>Advice</h2><ol>{advice}</ol>"
        f"{_consistency(results)}{_worst_case(results)}{_leakage(results)}{_slots(results)}</body></html>\n"
    )


def _consistency(results: Sequence[dict[str, Any]]) -> str:
    found = part(results, "consistency")
    series = {
        "answers that change": [(r["group_size"], r["flips"]) for r in found],
        "texts with any change": [(r["group_size"], r["touched"]) for r in found],
        "movement of the probability": [(r["group_size"], r["movement"]) for r in found],
    }
    rows = [
        (
            r["group_size"],
            f"{r['flips']:.2%}",
            f"{r['upper']:.2%}",
            f"{r['touched']:.1%}",
            f"{r['movement']:.3f}",
            f"{r['widest']:.2f}",
        )
        for r in found
    ]
    titles = ("texts per pass", "answers that change", "at most", "texts with any change", "movement", "widest")
    about = (
        f"Each of {found[0]['texts']} texts stayed in its slot and got {found[0]['draws']} sets of neighbours. "
        "`at most` holds with 95% certainty, for so many texts. "
        "Movement is the standard deviation of the probability of its usual answer; widest is the largest distance."
    )
    chart = lines("Only the neighbours change", series, x="texts per pass")
    return _section("Does an answer depend on its neighbours?", about, chart, _table(titles, rows))


def _worst_case(results: Sequence[dict[str, Any]]) -> str:
    found = part(results, "worst case")
    series = {}
    for r in found:
        series[f"{r['group_size']} texts per pass"] = [tuple(point) for point in r["curve"]]
        series[f"{r['group_size']}, random neighbours"] = [tuple(point) for point in r["chance_curve"]]
    rows = [
        (r["group_size"], f"{r['success']:.0%}", f"{r['by_chance']:.0%}", r["median_tries"] or "", r["texts"])
        for r in found
    ]
    about = "A black-box search chooses neighbours from the same rows, so that a right answer turns wrong."
    about += " Of a text with an answer per word, one wrong word is enough." if found[0]["words"] else ""
    about += " The same number of random groups shows what chance alone does."
    chart = lines("Right answers that were changed", series, x="groups tried")
    titles = ("texts per pass", "changed", "changed by random neighbours", "median tries", "texts")
    return _section("Can chosen neighbours change an answer?", about, chart, _table(titles, rows))


def _leakage(results: Sequence[dict[str, Any]]) -> str:
    found = part(results, "leakage")
    last = found[-1]
    names = {"states": "state", "logits": "logits", "own states": "own_state", "own logits": "own_logits"}
    labels = {shown: last[f"label_from_{name}"] for shown, name in names.items()}
    words = {shown: last[f"words_from_{name}"] or 0.5 for shown, name in names.items()}
    rows = [
        (
            r["group_size"],
            f"{r['chance']:.1%} ± {r['error']:.1%}",
            *(f"{r[f'label_from_{name}']:.1%}" for name in names.values()),
            *(f"{r[f'words_from_{name}'] or 0.5:.2f}" for name in ("state", "logits", "own_state")),
        )
        for r in found
    ]
    titles = ("texts per pass", "guessing", *(f"label, {name}" for name in names))
    titles += ("words, states", "words, logits", "words, own states")
    about = (
        "A linear probe reads slot 0 and names the label of the text in slot 1, or says which of 20 frequent words it "
        "contains (area under the curve; guessing is 0.5). The dashed line is guessing. `own` reads slot 1 itself."
    )
    charts = bars(f"The neighbour's label, {last['group_size']} texts per pass", labels, level=last["chance"])
    charts += bars("The neighbour's words (area under the curve)", words, level=0.5)
    return _section("What can be learned of a neighbour?", about, charts, _table(titles, rows))


def _slots(results: Sequence[dict[str, Any]]) -> str:
    found, control = part(results, "position"), part(results, "mixture read")[-1]
    last = found[-1]
    shown = {"accuracy": [(slot, value) for slot, value in enumerate(last["slots"], 1) if value is not None]}
    rows = [
        (r["group_size"], f"{r['accuracy']:.1%}", f"{r['worst']:.1%}", f"{r['best']:.1%}", f"{r['spread']:.2%}",
         f"{r['expected']:.2%}")
        for r in found
    ]  # fmt: skip
    titles = ("texts per pass", "accuracy", "worst slot", "best slot", "spread", "spread by chance")
    about = (
        f"At {control['group_size']} texts per pass the model scores {control['score']:.1%}; if each text is answered "
        f"from its neighbour's part of the mixture, {control['from_neighbour']:.1%}; guessing gives "
        f"{control['guessing']:.1%}. A model that reads the mixture falls to guessing."
    )
    title = f"Accuracy of each slot, {last['group_size']} texts per pass (dashed: the mean)"
    chart = lines(title, shown, x="slot", level=last["accuracy"])
    return _section("Are all slots equal, and is the mixture read?", about, chart, _table(titles, rows))


def _section(title: str, about: str, chart: str, table: str) -> str:
    return f"<h2>{escape(title)}</h2><p>{escape(about)}</p><div class='charts'>{chart}</div>{table}"


def _table(titles: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(str(title))}</th>" for title in titles)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
