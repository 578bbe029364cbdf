"""What the tests of `datamux predict` share."""

import csv
import json

from datamux.inference.files import read_items

TEXTS = ["good film", "the plot was very bad .", "anna lives in paris", "a film", "bad", "not good", "the a", "is ."]
MANY = [TEXTS[i % len(TEXTS)] + i // len(TEXTS) * " very" for i in range(30)]  # no two are equal


def write(file, rows):
    if file.suffix == ".jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif file.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    elif file.suffix == ".txt":
        file.write_text("".join(row["text"] + "\n" for row in rows))
    else:
        with file.open("w", newline="") as handle:
            writer = csv.DictWriter(handle, list(rows[0]), delimiter="\t" if file.suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    return file


def rows_of(file):
    return [item.row for item in read_items(file, ["text"])]
