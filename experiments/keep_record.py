"""Copy records of image figures into the package: `python experiments/keep_record.py RECORD.json ...`

One that is not whole, or not of MNIST, is refused.
"""

import shutil
import sys
from pathlib import Path

from datamux.evaluate.records import read_record
from datamux.reproduce.whole import problems

RESULTS = Path(__file__).parents[1] / "src" / "datamux" / "reproduce" / "results"


def keep(file: Path, folder: Path) -> list[str]:
    """Copy a record if nothing is wrong with it; what is wrong."""
    record = read_record(file)
    found = problems(record)
    if not found:
        shutil.copy(file, folder / f"{record['figure']}.json")
    return found


def main(files: list[str], folder: Path = RESULTS) -> int:
    found = [f"{file}: {problem}" for file in files for problem in keep(Path(file), folder)]
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
