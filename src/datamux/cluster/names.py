"""What files in the output folder are called.

A plan is one way to cut the input into shards. Its id is in the name of every part, of every file of bad rows, and of
every mark. So what a worker of an earlier plan leaves behind, however late, counts for nothing and replaces nothing.
"""

UNDER_WAY = "_job/under-way"
MANIFEST = "_job/manifest.json"
RUN = "_job/run.json"  # which run may write, and its plan once it is known
DONE, BEGUN = "_job/done", "_job/begun"  # each with a folder per plan
ERRORS = "_errors"
FAILED = f"{ERRORS}/failed-shards.jsonl"  # pieces of the input that could not be answered
PART = "part-"


def part_of(plan: str, shard: str, format: str) -> str:
    """The rows of a shard. Sorted by name, parts are in the order of the input."""
    return f"{PART}{shard}-{plan}.{format}"


def bad_rows_of(plan: str, shard: str) -> str:
    """The bad rows of a shard."""
    return f"{ERRORS}/{PART}{shard}-{plan}.jsonl"


def is_of_another_plan(name: str, plan: str) -> bool:
    """Whether this is a part, or a file of bad rows, and not of this plan."""
    return name.startswith(PART) and not name.partition(".")[0].endswith(f"-{plan}")


def marks_of(plan: str) -> str:
    """The folder with a mark for every shard that is done."""
    return f"{DONE}/{plan}"


def mark_of(plan: str, shard: str, rows: int, bad: int) -> str:
    return f"{marks_of(plan)}/{shard}-{rows}-{bad}"


def tries_of(plan: str, shard: str) -> str:
    """The folder with a note for every time that a shard was begun."""
    return f"{BEGUN}/{plan}/{shard}"
