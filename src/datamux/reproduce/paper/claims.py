"""Every claim of the paper as data: what it says, where, and the rule that computes the verdict from records."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from datamux.reproduce.images import rules as image_rules
from datamux.reproduce.paper.rules import analysis, appendix, cost, results, theory
from datamux.reproduce.paper.verdict import Verdict

Part = Literal["results", "analysis", "theory", "images", "appendix", "cost"]


@dataclass(frozen=True)
class Claim:
    """`figure` is the name of the figure (or of the experiment) that shows it."""

    name: str
    part: Part
    where: str
    statement: str
    figure: str
    rule: Callable[[], Verdict]

    @property
    def verdict(self) -> Verdict:
        return self.rule()


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "mnli-drop",
        "results",
        "Abstract",
        "On MNLI, 20 texts per pass cost less than 2 points and 40 less than 4.",
        "tasks",
        partial(results.task_drop, "mnli", small=2.0, large=4.0),
    ),
    Claim(
        "sst2-drop",
        "results",
        "Introduction",
        "On SST-2, 40 texts per pass cost only 2 points.",
        "tasks",
        results.sentiment_at_40,
    ),
    Claim(
        "easy-tasks",
        "results",
        "(R1)",
        "On QQP, SST-2 and QNLI the score hardly falls with N.",
        "tasks",
        results.easy_tasks,
    ),
    Claim(
        "hard-tasks",
        "results",
        "(R1)",
        "On MNLI and NER the score falls by 10 to 15 points at N = 40: there is a trade-off.",
        "tasks",
        results.hard_tasks,
    ),
    Claim("small-n", "results", "(R1)", "Small N (2, 5) may even improve the score.", "tasks", results.small_n),
    Claim(
        "ortho-or-hadamard",
        "results",
        "(R1)",
        "Ortho or Hadamard: the choice does not matter.",
        "tasks",
        results.ortho_or_hadamard,
    ),
    Claim(
        "published-code",
        "results",
        "the published code",
        "The published code, which trains the task with a new demultiplexer, gives these scores.",
        "tasks",
        results.published_code,
    ),
    Claim(
        "retrieval",
        "results",
        "(R2)",
        "Retrieval accuracy is nearly 100% up to N = 20 for every multiplexer and demultiplexer.",
        "retrieval-accuracy",
        results.retrieval,
    ),
    Claim(
        "upper-bound",
        "results",
        "(R2)",
        "Retrieval accuracy is a soft upper bound for how many instances a task can take.",
        "retrieval-accuracy",
        results.upper_bound,
    ),
    Claim(
        "throughput",
        "results",
        "Abstract, (R3)",
        "11x the throughput at N = 20 and 18x at N = 40 (12L/768H).",
        "throughput",
        cost.throughput,
    ),
    Claim(
        "draft-speed",
        "results",
        "a comment in its source",
        "On seven tasks, with up to 40 texts per pass, the speed grows by over 1,800%.",
        "throughput",
        cost.draft_speed,
    ),
    Claim(
        "prefix-cost",
        "results",
        "(R3)",
        "The gain is less than N because the prefix makes the sequence longer.",
        "throughput",
        cost.prefix_cost,
    ),
    Claim(
        "warm-up-needed",
        "results",
        "Section 3.3",
        "Without the retrieval warm-up, Transformers fail to converge.",
        "warm-up",
        results.warmup_needed,
    ),
    Claim(
        "training-time",
        "results",
        "Introduction",
        "Training time to convergence grows almost linearly with N.",
        "growth",
        results.training_time,
    ),
    Claim("heads", "analysis", "(A1)", "The number of attention heads does not matter.", "heads", analysis.heads),
    Claim(
        "smaller-models",
        "analysis",
        "(A2)",
        "Smaller models can also multiplex up to N = 20 with competitive scores.",
        "smaller-models",
        analysis.smaller_models,
    ),
    Claim(
        "smaller-throughput",
        "analysis",
        "(A2)",
        "Smaller models at N = 20 give 25x the throughput, more than the full model at N = 40.",
        "throughput",
        cost.smaller_throughput,
    ),
    Claim(
        "indices",
        "analysis",
        "(A3)",
        "Scores differ more between indices as N grows: about 10 points at N = 40.",
        "indices",
        analysis.indices,
    ),
    Claim(
        "robust",
        "analysis",
        "(A4)",
        "The representation of a text is robust to the texts that it is mixed with.",
        "anchors",
        analysis.robust,
    ),
    Claim(
        "far-apart",
        "analysis",
        "a comment in its source",
        "The representations of different texts have a cosine near 0 at large N.",
        "anchors",
        analysis.far_apart,
    ),
    Claim(
        "construction",
        "theory",
        "Section 4.4",
        "Attention can be constructed that processes N sequences in independent subspaces.",
        "theory",
        theory.construction,
    ),
    Claim(
        "scores-average",
        "theory",
        "Section 4.4",
        "Without one head per sequence, a head averages the attention scores of all sequences.",
        "theory",
        theory.scores_average,
    ),
    Claim(
        "existence-only",
        "theory",
        "Section 4.4",
        "The construction is an existence proof: it does not explain what trained models do.",
        "theory",
        theory.existence_only,
    ),
    Claim("pca", "images", "Appendix", "50 components hold 86.54% of the variance.", "mnist-pca", image_rules.pca),
    Claim("mlp", "images", "Section 5", "The MLP takes N = 8: about 78% with Ortho.", "mnist-mlp", image_rules.mlp),
    Claim("cnn", "images", "Section 5", "The CNN with Ortho has about 56% at N = 8.", "mnist-cnn", image_rules.cnn),
    Claim(
        "nonlinear",
        "images",
        "Section 5",
        "The CNN with nonlinear maps stays above 80% up to N = 4.",
        "mnist-cnn",
        image_rules.nonlinear,
    ),
    Claim(
        "rotation",
        "images",
        "Appendix",
        "Rotations work for N = 2 and fail beyond.",
        "mnist-cnn-kernels",
        image_rules.rotation,
    ),
    Claim(
        "mosaic",
        "images",
        "Appendix",
        "In a mosaic the CNN answers only one of the images.",
        "mnist-cnn-kernels",
        image_rules.mosaic,
    ),
    Claim(
        "identity",
        "images",
        "Section 5",
        "Without a multiplexer (identity) the share of right answers is about 1 / N.",
        "mnist-mlp",
        image_rules.identity,
    ),
    Claim(
        "low-rank",
        "images",
        "Section 5",
        "Low-rank keys are about 5 points better than Ortho for the MLP at N = 8.",
        "mnist-mlp",
        image_rules.low_rank,
    ),
    Claim(
        "no-drop",
        "images",
        "Section 5, caption",
        "MLPs take N = 8 and CNNs N = 4 without a significant drop.",
        "mnist-cnn",
        image_rules.no_drop,
    ),
    Claim(
        "index-spread",
        "images",
        "Appendix",
        "From N = 8 on, indices spread by about 7 points with nonlinear maps, by 10 to 24 with rotations.",
        "mnist-cnn-kernels",
        image_rules.index_spread,
    ),
    Claim(
        "other-kernels",
        "images",
        "Appendix",
        "Random and learned kernels are worse than rotations.",
        "mnist-cnn-kernels",
        image_rules.other_kernels,
    ),
    Claim(
        "wider-maps",
        "images",
        "Appendix",
        "Nonlinear maps that are 4 and 8 times as wide keep improving larger N.",
        "mnist-cnn-kernels",
        image_rules.wider_maps,
    ),
    Claim("seeds", "appendix", "Appendix", "Scores vary little between seeds, at every N.", "seeds", appendix.seeds),
    Claim(
        "learned-keys",
        "appendix",
        "Appendix",
        "Learned keys are no better than fixed Gaussian ones.",
        "keys",
        appendix.learned_keys,
    ),
    Claim(
        "binary-keys",
        "appendix",
        "Appendix",
        "Binary keys fail for large N (beyond 10 of 768 dimensions).",
        "keys",
        appendix.binary_keys,
    ),
    Claim(
        "mlp-demultiplexer",
        "appendix",
        "Appendix",
        "MLP demultiplexing is slightly worse than the prefix, and unstable.",
        "mlp-demultiplexer",
        appendix.mlp_demultiplexer,
    ),
    Claim(
        "sizes",
        "appendix",
        "Appendix",
        "Smaller plain models are competitive: the base model is larger than these tasks need.",
        "sizes",
        appendix.sizes,
    ),
    Claim(
        "memory",
        "appendix",
        "Appendix",
        "Memory grows linearly with N, to about 4x at N = 40 (60 rows per batch).",
        "memory-overhead",
        cost.memory,
    ),
    Claim(
        "equal-cost",
        "cost",
        "not in the paper",
        "At the same cost per text, a mixed network scores higher than a narrower plain one.",
        "equal-cost",
        cost.equal_cost,
    ),
)
