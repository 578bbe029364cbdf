"""`datamux.load(name)`, then `predictor(texts)`: answers in input order, as a Hugging Face pipeline would give them."""

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import deepcopy
from itertools import chain, islice
from pathlib import Path
from typing import Any

from torch import Tensor
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from datamux.errors import check_at_least_one
from datamux.grouping import check_group_size
from datamux.hub.loading import label_names, load_tokenizer
from datamux.inference.answers import Answer, label_answers, span_answers
from datamux.inference.loading import load_runtime
from datamux.inference.runtime import MEMORY, Runtime, run_passes
from datamux.inference.texts import Text, Texts, Window, max_tokens_of
from datamux.tasks.files import SUFFIXES, BadFile, Row, iterate_lines, iterate_rows

logger = logging.getLogger(__name__)
WINDOW = 8192  # texts that are tokenised and sorted by length together; or so many as make
GROUPS = 800  # groups, if that is more: with few groups, each would span many lengths


class Predictor:
    """Answers texts with a multiplexed (or plain) classifier or tagger.

    `config` names the labels and the kind of problem. One pass runs about `positions` positions, if that takes no more
    than `memory` bytes. `tells_cuts`: whether it warns of texts that are longer than the model takes. `merges_copies`:
    equal texts of a window are run once, and get one answer.
    """

    def __init__(
        self,
        runtime: Runtime,
        tokenizer: PreTrainedTokenizerBase,
        config: Any,
        *,
        token_level: bool,
        positions: int | None = None,
        memory: int = MEMORY,
        tells_cuts: bool = True,
        merges_copies: bool = True,
    ) -> None:
        self.runtime = runtime
        self.positions = positions
        self.token_level = token_level
        self.memory = memory
        self.tells_cuts = tells_cuts
        self.merges_copies = merges_copies
        self.names = label_names(config)
        self.problem = config.problem_type or "single_label_classification"
        self.texts = Texts(tokenizer, max_tokens_of(tokenizer, config), token_level=token_level)

    @property
    def num_instances(self) -> int:
        """How many texts may share a pass."""
        return self.runtime.num_instances

    def __call__(
        self,
        texts: str | dict[str, str] | Path | Iterable[Text],
        group_size: int | None = None,
        *,
        top_k: int = 1,
        progress: bool = False,
    ) -> Any:
        """A list for a list; for a generator, or a file (a `Path`), an iterator. One text: its answer.

        A file is a text a line, or a table (csv, tsv, jsonl, parquet) with a column `text`.
        `group_size`: how many texts share a pass, 1 to `num_instances` (the default).
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
        """Answers in input order, while later texts are still being read and tokenised; options of `as_they_come`."""
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
        """(which text, from 0; its answer), pass by pass, the longest texts of a window first.

        `letters`: how long all texts are together, where they come one by one; for the progress bar.
        """
        k = self.num_instances if group_size is None else group_size
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
                pending.append((start, ahead.submit(self.texts.window, some, merges_copies=self.merges_copies)))
                start += len(some)
                if len(pending) > 1:
                    yield from self._answer(*pending.popleft(), k, top_k, bar)
            while pending:
                yield from self._answer(*pending.popleft(), k, top_k, bar)
        if bar.cut and self.tells_cuts:
            logger.warning("%d texts were longer than the model takes, and were cut", bar.cut)

    def _answer(
        self, start: int, tokenised: Future[Window], k: int, top_k: int, bar: "Progress"
    ) -> Iterator[tuple[int, Answer]]:
        """The answers of one window, whose first text is number `start`; copies get one each."""
        window = tokenised.result()
        bar.learn(window)
        for rows, logits in run_passes(self.runtime, window.rows, k, positions=self.positions, memory=self.memory):
            found = self.answers(window, rows, logits, top_k)
            bar.advance(sum(window.lengths[row] for row in rows))
            if window.places is None:
                yield from ((start + row, answer) for row, answer in zip(rows, found, strict=True))
                continue
            for row, answer in zip(rows, found, strict=True):
                first, *others = window.places[row].tolist()
                yield start + first, answer
                yield from ((start + place, deepcopy(answer)) for place in others)  # its owner may change it

    def answers(self, window: Window, rows: Sequence[int], logits: Tensor, top_k: int = 1) -> list[Answer]:
        """What the logits of these rows of a window say."""
        if window.words is None:
            return label_answers(logits, self.names, self.problem, top_k)
        texts, words = [window.texts[row] for row in rows], [window.words[row] for row in rows]
        return span_answers(texts, words, logits, self.names)


class Progress:
    """A bar that counts tokens: texts are run longest first, so a count of texts would promise too little time.

    The total is what is known so far, scaled by the letters that are still to come.
    """

    def __init__(self, letters: int | None, *, shown: bool) -> None:
        self.letters = letters
        self.tokens_known = self.letters_known = self.cut = 0
        self.bar: Any = tqdm(unit=" tokens", unit_scale=True, disable=not shown)

    def learn(self, window: Window) -> None:
        """The tokens of its rows are to be run; the letters of copies are known as well."""
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
    """How many texts make a window, where the caller does not say."""
    return max(WINDOW, GROUPS * group_size)


def load(
    name: str | Path,
    *,
    device: str | None = None,
    bf16: bool = False,
    compiled: bool = False,
    memory: int = MEMORY,
) -> Predictor:
    """A predictor by name, folder or Hub name: a model of ours, an exported one, or a plain Hugging Face classifier."""
    runtime, config, token_level = load_runtime(str(name), device=device, bf16=bf16, compiled=compiled)
    tokenizer = load_tokenizer(name)
    return Predictor(runtime, tokenizer, config, token_level=token_level, memory=memory)


def _parts(texts: Iterable[Text], size: int) -> Iterator[list[Text]]:
    iterator = iter(texts)
    for first in iterator:
        yield list(chain([first], islice(iterator, size - 1)))


def _in_order(answers: Iterable[tuple[int, Answer]]) -> Iterator[Answer]:
    """Keep what comes early until everything before it is there."""
    early: dict[int, Answer] = {}
    place = 0
    for number, answer in answers:
        early[number] = answer
        while place in early:
            yield early.pop(place)
            place += 1


def _texts_of(file: Path) -> Iterator[Text]:
    """The lines of a text file, or what a table has in its column `text`."""
    if file.suffix.lower() in SUFFIXES:
        yield from _column(file, iterate_rows(file))
    else:
        with file.open(encoding="utf-8", errors="surrogateescape") as lines:
            yield from _column(file, iterate_lines(lines))


def _column(file: Path, rows: Iterator[tuple[Row, str | None]]) -> Iterator[Text]:
    for number, (row, problem) in enumerate(rows, 1):
        if problem is None and row.get("text") is None:
            problem = f"there is no text; columns: {', '.join(row)}; `datamux predict` takes others, with --text"
        if problem is not None:
            raise BadFile(file, problem, number)
        yield row["text"]


def _size_of(file: Path) -> int | None:
    """About how many letters a text file has; a table holds more than its texts."""
    return None if file.suffix.lower() in SUFFIXES or not file.exists() else file.stat().st_size
