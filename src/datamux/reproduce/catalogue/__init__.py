"""Every experiment that was run or could be, as literal data: one file per area, texts and images alike."""

from datamux.errors import unknown_name
from datamux.reproduce.catalogue.ablations import ABLATIONS
from datamux.reproduce.catalogue.control import CONTROL
from datamux.reproduce.catalogue.distilled import DISTILLED
from datamux.reproduce.catalogue.encoder import ENCODER
from datamux.reproduce.catalogue.frontiers import FRONTIERS
from datamux.reproduce.catalogue.mini import MINI
from datamux.reproduce.catalogue.packaged import PACKAGED
from datamux.reproduce.catalogue.paper import PAPER
from datamux.reproduce.catalogue.pretrained import PRETRAINED
from datamux.reproduce.catalogue.scratch import SCRATCH
from datamux.reproduce.catalogue.speed import SPEED
from datamux.reproduce.catalogue.successors import SUCCESSORS
from datamux.reproduce.catalogue.texts import TEXTS
from datamux.reproduce.catalogue.tune import TUNE
from datamux.reproduce.catalogue.your_file import YOUR_FILE
from datamux.reproduce.experiment import Experiment
from datamux.reproduce.images.catalogue import MNIST

TRAINED = (MINI, PAPER, MNIST, SCRATCH, PRETRAINED, DISTILLED, ENCODER, YOUR_FILE, SUCCESSORS, ABLATIONS)
AREAS = (*TRAINED, CONTROL, FRONTIERS, PACKAGED, SPEED, TEXTS, TUNE)
EXPERIMENTS: dict[str, Experiment] = {experiment.id: experiment for area in AREAS for experiment in area}
# What the experiments of a figure are about.
FIGURES = {
    "mini-retrieval": "mini scale: the paper's retrieval warm-ups, every multiplexer and demultiplexer",
    "mini-sst2": "mini scale: sentiment, as published, as the paper says, ours",
    "mini-conll2003": "mini scale: names in news, as published, as the paper says, ours",
    "mini-qqp": "mini scale: pairs of questions, as published, as the paper says, ours",
    "mini-mnli": "mini scale: does one sentence follow from another, as published, as the paper says, ours",
    "mini-qnli": "mini scale: a question and a sentence, as published, as the paper says, ours",
    "anchors": "the same texts among different neighbours: representations after PCA and t-SNE",
    "theory": "the paper's self-attention construction: exact separation, and what breaks it",
    "audit": "what neighbours can do to an answer of the models in the package, and what can be learned of them",
    "mnist": "the paper's MLPs and CNNs on MNIST, as published, corrected, and improved",
    "retrieval": "the retrieval warm-ups, scored on held-out Wikipedia",
    "sst2": "sentiment: from scratch, distilled, and from a pretrained encoder",
    "conll2003": "names in news: from scratch, distilled, and from a pretrained encoder",
    "qqp": "pairs of questions: from scratch, distilled, and from a pretrained encoder",
    "qnli": "a question and a sentence, from scratch",
    "mnli": "does one sentence follow from another, from scratch",
    "banking77": "77 intents, from a pretrained encoder",
    "your-file": "a file of your own, as in the quickstart",
    "warmup-ablation": "what makes the warm-up work",
    "task-ablation": "what makes the task stage work",
    "neighbour-control": "is the mixture read? Each row gets its neighbour's part of it",
    "frontier": "accuracy against throughput, beside a pretrained encoder cut to fewer layers",
    "distilled-frontier": "accuracy against throughput, beside smaller models with the same teacher",
    "encoder-frontier": "accuracy against throughput of taggers from the encoder in the package, whole, cut and mixed",
    "tune": "the fastest model within one point of a pretrained encoder, as datamux tune finds it",
    "packaged-models": "the models in the package",
    "speed": "instances per second against the plain model",
    "memory": "peak memory against the plain model",
    "breakdown": "where the time of a pass goes",
    "serve": "whole servers under rising load, plain and multiplexed",
    "soak": "100,000 texts of several tenants through a real server, every answer checked",
    "cluster": "files on Ray against the local engine, with one and two workers",
    "successors": "the methods of the papers that followed, with one budget",
    "texts": "files of texts that other experiments need",
}


def choose(name: str) -> list[Experiment]:
    """The experiments of a figure ("sst2"), or one experiment: by its full name, or by its own if no other has it."""
    if name in EXPERIMENTS:
        return [EXPERIMENTS[name]]
    found = [e for e in EXPERIMENTS.values() if e.figure == name] or [e for e in EXPERIMENTS.values() if e.name == name]
    if not found:
        raise _unknown(name)
    if len({e.figure for e in found}) > 1:
        raise ValueError(f"{name} is the name of several experiments: choose {', '.join(e.id for e in found)}")
    return found


def get_experiment(name: str) -> Experiment:
    """One experiment by its name."""
    found = choose(name)
    if len(found) > 1:
        raise ValueError(f"{name} is a figure of {len(found)} experiments, such as {found[0].id}: name one of them")
    return found[0]


def _unknown(name: str) -> ValueError:
    """Name the figures and the nearest of all names; there are too many experiments to list them here."""
    nearest = str(unknown_name("", name, {*FIGURES, *EXPERIMENTS, *(e.name for e in EXPERIMENTS.values())}))
    hint = nearest[nearest.find(" Did you mean") :] if " Did you mean" in nearest else ""
    return ValueError(
        f"no figure or experiment is called {name!r}.{hint} Figures: {', '.join(FIGURES)}. "
        "`datamux reproduce --list FIGURE` lists the experiments of one."
    )
