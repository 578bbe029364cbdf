"""The tables of a load test's record, as the command prints them and as the guide shows them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

Record = dict[str, Any]
FEW = 0.1  # cores that others may use before the table warns
FULL_CORE = 0.9  # cores of the load generator from which it may itself be the limit
ALWAYS = 0.9  # share of the time from which a part of the server counts as always at work
LOOP, PASSES = "event loop", "the passes"


class Table(NamedTuple):
    """A table with a title, and notes to be read with it."""

    title: str
    columns: Sequence[str]
    rows: list[list[str]]
    notes: list[str]


def tables(record: Record) -> list[Table]:
    """The summary, the steps of the load, and the profile if there is one."""
    found = [summary_table(record), *(step_table(record, batch) for batch in record["settings"]["texts_per_request"])]
    return [*found, profile_table(record)] if "profile" in record else found


def summary_table(record: Record) -> Table:
    """Throughput at saturation and at the latency bound."""
    settings = record["settings"]
    columns = [
        *("texts per request", "server", "texts/s at saturation", "against plain (lowest to highest)", "gears"),
        *(f"texts/s, p95 up to {settings['latency_ms']:g} ms", "against plain (lowest to highest)"),
    ]
    rows = []
    for row in sorted(record["summary"], key=lambda row: settings["texts_per_request"].index(row["texts_per_request"])):
        at_bound = f"{row['at_bound']:,.0f}" if row["at_bound"] else "none"
        at_bound += "" if row["bound_was_reached"] else " or more"
        is_plain = row["server"] == "plain"
        rows.append(
            [
                str(row["texts_per_request"]),
                row["server"],
                f"{row['saturation']:,.0f}{_or_more(record, row)}",
                "" if is_plain else _ratio(row, "saturation"),
                _gears(row["gears"]),
                at_bound,
                "" if is_plain else _ratio(row, "at_bound"),
            ]
        )
    notes = [_cores(record)]
    if any(_or_more(record, row) for row in record["summary"]):
        notes.insert(0, "At saturation, `or more` means that the most users that were tried got the most answers.")
    title = f"Throughput of the whole server: texts from {settings['texts']}, median of {settings['rounds']} rounds"
    return Table(title, columns, rows, notes)


def _or_more(record: Record, row: Record) -> str:
    """Whether a server was at its best under the largest load that was tried: more users might have got more."""
    same = [step["users"] for step in record["results"] if _is_of(row, step)]
    return " or more" if len(same) > 1 and row["users_at_saturation"] == max(same) else ""


def _is_of(row: Record, step: Record) -> bool:
    return (step["server"], step["texts_per_request"]) == (row["server"], row["texts_per_request"])


def step_table(record: Record, batch: int) -> Table:
    """Every step of the load, for one number of texts per request."""
    columns = ["server", "users", "requests/s", "texts/s", "p50, ms", "p95, ms", "p99, ms", "errors", "gears"]
    rows = [
        [
            row["server"],
            str(row["users"]),
            f"{row['requests_per_second']:,.1f}",
            f"{row['texts_per_second']:,.0f}",
            *(_milliseconds(row[name]) for name in ("p50", "p95", "p99")),
            _errors(row),
            _gears(row["gears"]),
        ]
        for row in sorted(record["results"], key=lambda row: record["settings"]["servers"].index(row["server"]))
        if row["texts_per_request"] == batch
    ]
    return Table(f"Every step of the load, {_requests(batch)}", columns, rows, [])


def _requests(batch: int) -> str:
    return "single texts" if batch == 1 else f"batches of {batch}"


def profile_table(record: Record) -> Table:
    profile = record["profile"]
    server, bare = profile["server"], profile["bare_http"]
    rows = [
        [part["thread"], part["part"], f"{part['microseconds']:,.0f}", f"{part['share']:.0%}"]
        for part in profile["parts"]
    ]
    notes = [
        f"Single texts, {profile['users']} users: {server['requests_per_second']:,.0f} requests per second. A server "
        f"that does nothing but HTTP answers {bare['requests_per_second']:,.0f} on this machine "
        f"({bare['microseconds']['event loop']:,.0f} of our {server['microseconds']['event loop']:,.0f} microseconds "
        "in the event loop).",
        _cpu_shares(profile),
        _busy(server),
        *_wall_times(server),
        _ceiling(profile, record["hardware"]["cores"]),
        f"The load generator used {server['generator_cores']:.2f} cores beside us and {bare['generator_cores']:.2f} "
        "beside the other"
        + ("; it may be the limit." if max(server["generator_cores"], bare["generator_cores"]) > FULL_CORE else "."),
    ]
    title = "Where the CPU time of a single-text request goes"
    return Table(title, ["thread", "part", "microseconds per request", "share"], rows, notes)


def _cpu_kinds(profile: Record) -> dict[str, float]:
    """The share of a request's CPU time that is HTTP's, ours and the model's."""
    kinds = {"HTTP": 0.0, "ours": 0.0, "tokenising": 0.0, "the model": 0.0}
    for part in profile["parts"]:
        if part["thread"] == LOOP:
            kinds["HTTP" if part["part"].startswith("HTTP") else "ours"] += part["share"]
        else:
            kinds["tokenising" if part["thread"] == "tokenising" else "the model"] += part["share"]
    return kinds


def _cpu_shares(profile: Record) -> str:
    told = ", ".join(f"{share:.0%} is {kind}" for kind, share in _cpu_kinds(profile).items())
    return f"Of the CPU time of a request, {told}."


def _wall_times(server: Record) -> list[str]:
    if "wall" not in server:  # older records lack it
        return []
    wall = server["wall"]
    told = "; ".join(f"{name} {_milliseconds(spent)} ms" for name, spent in wall["milliseconds"].items())
    return [
        f"By the clock, a request takes: {told}. A pass ran in {wall['pass_share']:.0%} of the time, "
        f"with {wall['texts_per_pass']:,.0f} texts."
    ]


def _ceiling(profile: Record, cores: int) -> str:
    """Which part is always at work, so that nothing can be faster than it, or whether all of them fill the machine."""
    server = profile["server"]
    if "wall" not in server:
        return (
            "What the ceiling is cannot be told from this record: shares of CPU time do not say what requests wait "
            "for. So it does not show that HTTP is the ceiling of single texts."
        )
    at_work = {PASSES: server["wall"]["pass_share"], **server["busy"]}
    at_work.pop("model", None)  # its thread waits while PyTorch's other threads work; a pass is all of that
    busiest = max(at_work, key=lambda name: at_work[name])
    kinds, full = _cpu_kinds(profile), _full_machine(server, cores)
    if at_work[busiest] < ALWAYS:
        told = ", ".join(f"{name} {share:.0%}" for name, share in at_work.items())
        if full:
            return (
                f"No part is always at work ({told}), but {full}. So the ceiling of single texts is the CPU time of "
                f"all parts together, and HTTP is {kinds['HTTP']:.0%} of the server's."
            )
        return f"No part is always at work ({told}): they wait for one another, and HTTP alone is not the ceiling."
    also = f" Also, {full}, so each part slows down the others by the CPU time that it takes." if full else ""
    if busiest == LOOP:
        most = "HTTP" if kinds["HTTP"] > kinds["ours"] else "our own code"
        what = f"the event loop, at work {at_work[LOOP]:.0%} of the time, most of it in {most}"
    else:
        what = f"{busiest}, at work {at_work[busiest]:.0%} of the time: not HTTP"
    return f"The ceiling of single texts is {what}.{also}"


def _full_machine(server: Record, cores: int) -> str:
    """That the server and the load generator used nearly all cores; empty if they did not."""
    if server["cores"] + server["generator_cores"] < ALWAYS * cores:
        return ""
    return (
        f"the machine was full: of its {cores} cores the server used {server['cores']:.2f} and the load generator "
        f"{server['generator_cores']:.2f}"
    )


def _busy(server: Record) -> str:
    if "busy" not in server:  # older records lack it
        return "Only one thread of the model was clocked; what PyTorch's other threads used is not in these numbers."
    told = ", ".join(f"{name} {share:.0%}" for name, share in server["busy"].items())
    return f"How much of the time each thread was at work: {told}. The whole process used {server['cores']:.2f} cores."


def _cores(record: Record) -> str:
    """What else used the machine while it was measured."""
    rows, cores = record["results"], record["hardware"]["cores"]
    generator = max(row["generator_cores"] for row in rows)
    note = f"The load generator ran on the same machine ({cores} cores) and used up to {generator:.2f} of a core"
    note += "; at that step it may itself be the limit." if generator > FULL_CORE else "."
    others = [row["other_cores"] for row in rows if row["other_cores"] is not None]
    if others and max(others) > FEW:
        note += f" Other programs used up to {max(others):.2f} cores meanwhile, so only ratios mean something."
    return note


def _ratio(row: dict[str, Any], name: str) -> str:
    ratio, low, high = (row[f"{name}_ratio{end}"] for end in ("", "_lowest", "_highest"))
    return "" if ratio is None else f"{ratio:.2f}x ({low:.2f} to {high:.2f})"


def _gears(gears: dict[str, int]) -> str:
    """The share of the texts that each gear answered."""
    total = sum(gears.values())
    shares = {gear: texts / total for gear, texts in gears.items() if texts > 0.005 * total}
    return ", ".join(gear if share > 0.995 else f"{gear} {share:.0%}" for gear, share in shares.items())


def _milliseconds(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _errors(row: dict[str, Any]) -> str:
    return ", ".join(f"{count} x {problem}" for problem, count in row["problems"].items()) or "0"
