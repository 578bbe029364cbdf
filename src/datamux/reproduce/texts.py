"""Texts that experiments need: some for a teacher to label, and data sets as files like a user's own.

For CoNLL-2003 they are sentences of Wikipedia, with words and punctuation marks apart. For SST-2 they are its training
phrases with some words replaced by others whose vectors in the pretrained encoder are similar. For QQP they are pairs
of its training questions, most of them close to each other for the encoder.
"""

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from datamux.hub.loading import load_encoder, load_tokenizer
from datamux.tasks.files import format_of, read_table, write_table
from datamux.tasks.task import find_file, get_task, load_split, read_corpus

WORDS = re.compile(r"\w+(?:[-'.]\w+)*|[^\w\s]")
ENDS = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
COUNT = 60_000  # texts for a teacher
SHORTEST, LONGEST = 5, 40  # words of a sentence
NEIGHBOURS = 8  # of a word or a question: one of them takes its place
SHARE = 0.3  # of words that are replaced
CLOSE = 0.75  # of pairs whose questions are close; the others are any two


def wikipedia_sentences(count: int, data_dir: str | None = None) -> Iterator[str]:
    """About `count` sentences from all over the corpus, without headings."""
    lines = [line for line in read_corpus(get_task("wikipedia_en"), "train", data_dir) if not line.startswith("=")]
    sentences = (" ".join(WORDS.findall(s)) for line in lines for s in ENDS.split(line))
    fitting = [s for s in sentences if SHORTEST <= s.count(" ") + 1 <= LONGEST]
    yield from islice(fitting, 0, None, max(1, len(fitting) // count))


def similar_words(encoder: str) -> dict[str, list[str]]:
    """For every whole word of an encoder's vocabulary, the words whose vectors are nearest."""
    vocabulary = load_tokenizer(encoder).get_vocab()
    words = [word for word in vocabulary if re.fullmatch(r"[a-z]{3,}", word)]
    table = load_encoder(encoder).get_input_embeddings().weight.detach()
    vectors = torch.nn.functional.normalize(table[[vocabulary[word] for word in words]])
    near = _nearest(vectors)
    return {word: [words[i] for i in row] for word, row in zip(words, near, strict=True)}


def _nearest(vectors: torch.Tensor) -> list[list[int]]:
    """For every vector, the rows of those nearest to it."""
    parts = torch.split(vectors, 1000)
    found: list[list[int]] = torch.cat([(p @ vectors.T).topk(NEIGHBOURS + 1).indices[:, 1:] for p in parts]).tolist()
    return found


def replaced_phrases(count: int, encoder: str, data_dir: str | None = None) -> Iterator[str]:
    """`count` phrases of SST-2, longer ones first and again from the start, with some words replaced."""
    similar, chance = similar_words(encoder), random.Random(0)
    phrases = sorted(load_split(get_task("sst2"), "train", data_dir).texts, key=len, reverse=True)
    for phrase in islice((p for _ in range(10) for p in phrases[: max(1, count // 2)]), count):
        yield " ".join(
            chance.choice(similar[word]) if word in similar and chance.random() < SHARE else word
            for word in phrase.split()
        )


@torch.inference_mode()
def sentence_vectors(texts: list[str], encoder: str) -> torch.Tensor:
    """The mean of an encoder's states over each text, of length one."""
    tokenizer, model = load_tokenizer(encoder), load_encoder(encoder)
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    found = torch.empty(len(texts), model.config.hidden_size)
    for start in range(0, len(order), 128):
        rows = order[start : start + 128]
        given = tokenizer(
            [texts[row] for row in rows], padding=True, truncation=True, max_length=64, return_tensors="pt"
        )
        mask = given["attention_mask"].unsqueeze(-1)
        found[rows] = (model(**given).last_hidden_state * mask).sum(1) / mask.sum(1)
    return torch.nn.functional.normalize(found)


def question_pairs(count: int, encoder: str, data_dir: str | None = None) -> Iterator[str]:
    """Pairs of questions as JSON lines: each question with one of its nearest, or with any other."""
    rows, chance = load_split(get_task("qqp"), "train", data_dir), random.Random(0)
    questions = sorted({*rows.texts, *(rows.pairs or ())})
    vectors = sentence_vectors(questions, encoder)
    near = _nearest(vectors)
    given = {frozenset(pair) for pair in zip(rows.texts, rows.pairs or (), strict=True)}
    made: set[frozenset[str]] = set()
    while len(made) < count:
        one = chance.randrange(len(questions))
        other = chance.choice(near[one]) if chance.random() < CLOSE else chance.randrange(len(questions))
        pair = frozenset((questions[one], questions[other]))
        if len(pair) == 2 and pair not in given and pair not in made:
            made.add(pair)
            yield json.dumps({"question1": questions[one], "question2": questions[other]})


MAKERS: dict[str, Callable[[str, str | None], Iterator[str]]] = {
    "conll2003": lambda encoder, data_dir: wikipedia_sentences(COUNT, data_dir),
    "sst2": lambda encoder, data_dir: replaced_phrases(COUNT, encoder, data_dir),
    "qqp": lambda encoder, data_dir: question_pairs(COUNT, encoder, data_dir),
}


def make_texts(name: str, settings: Mapping[str, Any], file: Path, data_dir: str | None) -> None:
    """Write the texts of an experiment into a file, which appears only when it is complete."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f"part-{file.name}")
    if name in MAKERS:
        texts = MAKERS[name](settings["encoder"], data_dir)
        part.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    else:
        source = find_file(get_task(settings["data"]), settings["split"], data_dir)
        if source is None:
            raise FileNotFoundError(f"{settings['data']} is needed as a file: set DATAMUX_DATA or --data-dir")
        rows = read_table(source)
        if some := settings.get("rows"):  # a smaller file; drawn at random, because a file may be sorted by label
            rows = random.Random(0).sample(rows, some)
        write_table(part, format_of(file), rows)
    part.replace(file)
