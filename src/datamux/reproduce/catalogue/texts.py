"""Files of texts that other experiments need: texts for a teacher to label, and data sets as a user's own file.

`banking77-1000-train` has 1,000 of the training rows, drawn at random.
"""

from datamux.reproduce.experiment import Experiment

TEXTS = (
    *(
        Experiment("texts", task, "texts", settings={"encoder": "{encoder}", "suffix": suffix})
        for task, suffix in (("sst2", ".txt"), ("conll2003", ".txt"), ("qqp", ".jsonl"))
    ),
    *(
        Experiment("texts", f"{data}-{split}", "texts", settings={"data": data, "split": split, "suffix": suffix})
        for data, suffix, splits in (
            ("banking77", ".csv", ("train", "test")),
            ("wnut17", ".jsonl", ("train", "test")),
            ("conll2003", ".jsonl", ("train", "test")),
            ("qqp", ".jsonl", ("train", "validation")),
            ("sst2", ".csv", ("test",)),
        )
        for split in splits
    ),
    *(
        Experiment(
            "texts",
            f"{data}-{rows}-train",
            "texts",
            settings={"data": data, "split": "train", "suffix": ".csv", "rows": rows},
        )
        for data, rows in (("banking77", 1000), ("sst2", 5000))
    ),
)
