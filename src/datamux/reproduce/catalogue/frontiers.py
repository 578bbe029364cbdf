"""Accuracy against throughput: everything that answers a task, side by side in one process, the plain model first."""

from datamux.reproduce.experiment import Experiment

ENGINES = ("--engine", "bf16", "--engine", "int8", "--rounds", "3", "--seconds", "0.5", "--max-drop", "2")
SECONDS = {"sst2": "0.5", "conll2003": "1.5"}
ONLY_WORDS = {task: {"words alone": f"{{{task}/scratch-plain-0l-256h}}"} for task in ("sst2", "conll2003")}


def _cut(task: str, three: str = "", two: str = "") -> dict[str, str]:
    return {
        "6 layers": f"{{{task}/minilm-plain-6-layers}}",
        "3 layers": f"{{{task}/minilm-plain-3-layers{three}}}",
        "2 layers": f"{{{task}/minilm-plain-2-layers{two}}}",
        "1 layer": f"{{{task}/minilm-plain-1-layers}}",
        "6 layers, mixed after 2": f"{{{task}/minilm-n10-mux-layer-2}}",
    }


def _small(task: str) -> dict[str, str]:
    return {"small 4L/256H": f"{{{task}/distilled-plain}}", "small 4L/256H, mixed": f"{{{task}/distilled-n20}}"}


def _distilled(task: str) -> dict[str, str]:
    return {
        "4 layers": f"{{{task}/distilled-plain}}",
        "4 layers, mixed": f"{{{task}/distilled-n20}}",
        "1 layer of 256": f"{{{task}/distilled-plain-1l-256h}}",
        "1 layer of 64": f"{{{task}/distilled-plain-1l-64h}}",
        "words alone": f"{{{task}/distilled-plain-0l-256h}}",
    }


# A tagger from the encoder in the package, and the simple rival: the same encoder, cut.
FROM_ENCODER = {
    "4 layers": "{conll2003/encoder-plain}",
    "2 layers": "{conll2003/encoder-plain-2-layers}",
    "4 layers, mixed after 2": "{conll2003/encoder-n10-mux-layer-2}",
}
MODELS = {
    "sst2": _cut("sst2", "-longer", "-longer")
    | _small("sst2")
    | {"small 1L/64H": "{sst2/scratch-plain-1l-64h-distilled}"}
    | ONLY_WORDS["sst2"],
    "banking77": _cut("banking77", two="-longer-lr-2e-4"),
    "conll2003": _cut("conll2003", "-longer", "-longer") | _small("conll2003") | ONLY_WORDS["conll2003"],
}
SMALL = (
    "The small models of 4L/256H are trained from scratch; they are older, and worse, than the models that are in the "
    "package now."
)
ONE_LAYER = "1L/64H is a plain model with the same teacher."
WITHOUT_LAYERS = (
    "`words alone` is the mean of word vectors and a head, without any layer; a plain 4L/256H is its teacher."
)
# What a reader of the table should know about its small models.
NOTES = {"sst2": (SMALL, ONE_LAYER, WITHOUT_LAYERS), "banking77": (), "conll2003": (SMALL, WITHOUT_LAYERS)}
FRONTIERS = (
    *(
        Experiment("frontier", task, "frontier", settings=models, task=task, groupings=2, options=ENGINES)
        for task, models in MODELS.items()
    ),
    *(
        Experiment("distilled-frontier", task, "frontier", settings=_distilled(task), task=task, groupings=1,
                   options=("--rounds", "5", "--seconds", seconds, "--max-drop", "2"))
        for task, seconds in SECONDS.items()
    ),
    Experiment("encoder-frontier", "conll2003", "frontier", settings=FROM_ENCODER, task="conll2003", groupings=3,
               options=("--rounds", "5", "--seconds", SECONDS["conll2003"], "--max-drop", "2")),
)  # fmt: skip
