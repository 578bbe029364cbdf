"""`datamux.load(name)`, then `predictor(texts)`: answers in input order, as a Hugging Face pipeline would give them."""

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy, deepcopy
from itertools import chain, islice
from pathlib import Path
from typing import Any

from torch import Tensor
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from datamux.errors import check_at_least_one, check_choice
from datamux.grouping import check_group_size
from datamux.hub.loading import label_names, load_tokenizer
from datamux.inference.answers import Answer, label_answers, span_answers
from datamux.inference.loading import load_runtime
from datamux.inference.preferences import read_preferences
from datamux.inference.runtime import MEMORY, Runtime, StepWatch, run_passes, unwatched
from datamux.inference.texts import Text, Texts, Window, max_tokens_of
from datamux.tasks.files import BadFile, is_table, iterate_rows, iterate_text_file
from datamux.zoo import find_model

logger = logging.getLogger(__name__)
WINDOW = 8192  # at least this many texts are tokenised and sorted by length together,
GROUPS = 800  # and at least as many as fill this many groups: with fewer groups, each would span many lengths
SETTINGS = ("positions", "group_size", "memory", "tells_cuts", "merges_copies", "watch")


class Predictor:
    """Answers texts with a multiplexed (or plain) classifier or tagger.

    - `config` names the labels and the kind of problem.
    - `group_size` texts share a group, unless a call says otherwise; None: as many as there are slots.
    - `positions`: one pass runs about this many, unless they would take more than `memory` bytes.
    - `tells_cuts`: whether to warn about texts that are longer than the model's limit.
    - `merges_copies`: whether equal texts of a window are run once and share their answer.
    - `watch` is entered around every step of the work; benchmarks time the steps with it.
    """

    def __init__(
        self,
        runtime: Runtime,
        tokenizer: PreTrainedTokenizerBase,
        config: Any,
        *,
        token_level: bool,
        group_size: int | None = None,
        positions: int | None = None,
        memory: int = MEMORY,
        tells_cuts: bool = True,
        merges_copies: bool = True,
        watch: StepWatch = unwatched,
    ) -> None:
        self.runtime = runtime
        self.group_size = group_size
        self.positions = positions
        self.token_level = token_level
        self.memory = memory
        self.tells_cuts = tells_cuts
        self.merges_copies = merges_copies
        self.watch = watch
        self.names = label_names(config)
        self.problem = config.problem_type or "single_label_classification"
        self.texts = Texts(tokenizer, max_tokens_of(tokenizer, config), token_level=token_level)

    @property
    def num_instances(self) -> int:
        """How many texts may share a group, and with it a pass."""
        return self.runtime.num_instances

    @property
    def default_size(self) -> int:
        """How many texts share a group if a call does not say."""
        return self.group_size or self.num_instances

    def with_settings(self, **changes: Any) -> "Predictor":
        """A copy with other `SETTINGS`, which shares the model and the tokenizer. This predictor stays as it is."""
        other = copy(self)
        for name, value in changes.items():
            check_choice("setting", name, SETTINGS)
            setattr(other, name, value)
        return other

    def __call__(
        self,
        texts: str | dict[str, str] | Path | Iterable[Text],
        group_size: int | None = None,
        *,
        top_k: int = 1,
        progress: bool = False,
    ) -> Any:
        """Answers in input order: a list for a list, an iterator for a generator or a file (a `Path`).

        One text gets its answer, as from a Hugging Face pipeline. A file has one text per line, or is a table (csv,
        tsv, jsonl, parquet) with a column `text`. `group_size` texts share a group: 1 to `num_instances`. The
        default is what the model's folder prefers, or else `num_instances`.
        """
        options: dict[str, Any] = {"group_size": group_size, "top_k": top_k, "progress": progress}
        if isinstance(texts, str | dict):
            (answer,) = self.stream([texts], **options)
            return answer if self.token_level else [answer]
        if isinstance(texts, Path):
            return self.stream(_texts_of(texts), letters=_size_of(texts), **options)
        if isinstance(texts, Sequence):
            return list(self.stream(texts, **options))
        return self.stream(texts, **options)

    def stream(self, texts: Iterable[Text], **options: Any) -> Iterator[Answer]:
        """Answers in input order, while later texts are still being read. Takes the options of `as_they_come`."""
        return _in_order(self.as_they_come(texts, **options))

    def as_they_come(
        self,
        texts: Iterable[Text],
        *,
        group_size: int | None = None,
        top_k: int = 1,
        progress: bool = False,
        window: int | None = None,
        letters: int | None = None,
    ) -> Iterator[tuple[int, Answer]]:
        """Pairs of a text's number (from 0) and its answer, pass by pass; the longest texts of a window come first.

        `letters` is the length of all texts together. The progress bar needs it where the texts come from an iterator.
        """
        k = self.default_size if group_size is None else group_size
        check_group_size(k, self.num_instances)
        window = window_size(k) if window is None else window
        check_at_least_one("window", window)
        check_at_least_one("top_k", top_k)
        if letters is None and progress and isinstance(texts, Sequence):
            letters = sum(map(self.texts.letters, texts))
        return self._windows(texts, k, top_k, Progress(letters, shown=progress), window)

    def _windows(
        self, texts: Iterable[Text], k: int, top_k: int, bar: "Progress", size: int
    ) -> Iterator[tuple[int, Answer]]:
        """Run one window while the next is tokenised."""
        with ThreadPoolExecutor(1) as ahead, bar:
            pending: deque[tuple[int, Future[Window]]] = deque()
            start = 0
            for some in _parts(texts, size):
                pending.append((start, ahead.submit(self._tokenise, some)))
                start += len(some)
                if len(pending) > 1:
                    yield from self._answer(*pending.popleft(), k, top_k, bar)
            while pending:
                yield from self._answer(*pending.popleft(), k, top_k, bar)
        if bar.cut and self.tells_cuts:
            logger.warning(
                "%d texts were longer than the model's limit of %d tokens and were cut", bar.cut, self.texts.max_tokens
            )

    def _tokenise(self, texts: Sequence[Text]) -> Window:
        with self.watch("tokenise"):
            return self.texts.window(texts, merges_copies=self.merges_copies)

    def _answer(
        self, start: int, tokenised: Future[Window], k: int, top_k: int, bar: "Progress"
    ) -> Iterator[tuple[int, Answer]]:
        """The answers of one window, whose first text has the number `start`. Every copy gets its own."""
        window = tokenised.result()
        bar.learn(window)
        limits: dict[str, Any] = {"positions": self.positions, "memory": self.memory}
        for rows, logits in run_passes(self.runtime, window.rows, k, watch=self.watch, **limits):
            with self.watch("answer"):
                found = self.answers(window, rows, logits, top_k)
            bar.advance(sum(window.lengths[row] for row in rows))
            if window.places is None:
                yield from ((start + row, answer) for row, answer in zip(rows, found, strict=True))
                continue
            for row, answer in zip(rows, found, strict=True):
                first, *others = window.places[row].tolist()
                yield start + first, answer
                yield from ((start + place, deepcopy(answer)) for place in others)  # the caller may change one of them

    def answers(self, window: Window, rows: Sequence[int], logits: Tensor, top_k: int = 1) -> list[Answer]:
        """Turn the logits of these rows of a window into answers."""
        if window.words is None:
            return label_answers(logits, self.names, self.problem, top_k)
        texts, words = [window.texts[row] for row in rows], [window.words[row] for row in rows]
        return span_answers(texts, words, logits, self.names)


class Progress:
    """A progress bar that counts tokens. Long texts run first, so a count of texts would be too slow at the start.

    The total is estimated: the tokens known so far, scaled by the letters that are still to come.
    """

    def __init__(self, letters: int | None, *, shown: bool) -> None:
        self.letters = letters
        self.tokens_known = self.letters_known = self.cut = 0
        self.bar: Any = tqdm(unit=" tokens", unit_scale=True, disable=not shown)

    def learn(self, window: Window) -> None:
        """Count the tokens of a window's rows, which are still to be run, and the letters of all its texts."""
        copies = [1] * len(window.texts) if window.places is None else list(map(len, window.places))
        self.tokens_known += sum(window.lengths)
        self.letters_known += sum(len(text) * many for text, many in zip(window.texts, copies, strict=True))
        self.cut += sum(copies[row] for row in window.cut)
        if self.letters is not None:
            self.bar.total = round(self.tokens_known * max(1.0, self.letters / max(1, self.letters_known)))

    def advance(self, tokens: int) -> None:
        self.bar.update(tokens)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.close()


def window_size(group_size: int) -> int:
    """How many texts make a window, unless the caller chooses."""
    return max(WINDOW, GROUPS * group_size)


def load(
    name: str | Path,
    *,
    device: str | None = None,
    bf16: bool = False,
    compiled: bool = False,
    memory: int = MEMORY,
) -> Predictor:
    """A predictor for a model in the package, a folder or a name on the Hub.

    The model may be multiplexed, exported, or a plain Hugging Face classifier.
    """
    runtime, config, token_level = load_runtime(str(name), device=device, bf16=bf16, compiled=compiled)
    tokenizer = load_tokenizer(name)
    wanted = read_preferences(Path(find_model(name)))
    return Predictor(
        runtime,
        tokenizer,
        config,
        token_level=token_level,
        group_size=wanted.group_size,
        positions=wanted.positions,
        memory=memory,
    )


def _parts(texts: Iterable[Text], size: int) -> Iterator[list[Text]]:
    iterator = iter(texts)
    for first in iterator:
        yield list(chain([first], islice(iterator, size - 1)))


def _in_order(answers: Iterable[tuple[int, Answer]]) -> Iterator[Answer]:
    """Hold early answers back until all answers before them have come."""
    early: dict[int, Answer] = {}
    place = 0
    for number, answer in answers:
        early[number] = answer
        while place in early:
            yield early.pop(place)
            place += 1


def _texts_of(file: Path) -> Iterator[Text]:
    """The lines of a text file, or the column `text` of a table."""
    rows = iterate_rows(file) if is_table(file) else iterate_text_file(file)
    for number, (row, problem) in enumerate(rows, 1):
        if problem is None and row.get("text") is None:
            problem = f"has no text; columns: {', '.join(row)}; `datamux predict` can read another one, with --text"
        if problem is not None:
            raise BadFile(file, problem, number)
        yield row["text"]


def _size_of(file: Path) -> int | None:
    """About how many letters a text file has. A table holds more than its texts, so its size says nothing."""
    return None if is_table(file) or not file.exists() else file.stat().st_size
