"""Texts for a teacher to label (`--set task.unlabelled=FILE`): what the models in the package learn from, too.

python experiments/unlabelled.py conll2003 FILE.txt           sentences of Wikipedia, words and signs apart
python experiments/unlabelled.py sst2 FILE.txt --encoder E    its training phrases, some words replaced by others whose
                                                              vectors in the pretrained encoder E are similar
"""

import argparse
import random
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch
from transformers import AutoModel, AutoTokenizer

from datamux.tasks.task import get_task, load_split, read_corpus

WORDS = re.compile(r"\w+(?:[-'.]\w+)*|[^\w\s]")
ENDS = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
SHORTEST, LONGEST = 5, 40  # words of a sentence
NEIGHBOURS = 8  # that a word may be replaced by
SHARE = 0.3  # of words that are replaced


def wikipedia_sentences(count: int) -> Iterator[str]:
    """About `count` sentences from all over the corpus, headings left out."""
    lines = [line for line in read_corpus(get_task("wikipedia_en"), "train") if not line.startswith("=")]
    sentences = (" ".join(WORDS.findall(s)) for line in lines for s in ENDS.split(line))
    fitting = [s for s in sentences if SHORTEST <= s.count(" ") + 1 <= LONGEST]
    yield from islice(fitting, 0, None, max(1, len(fitting) // count))


def similar_words(encoder: str) -> dict[str, list[str]]:
    """For every whole word of an encoder's vocabulary, those whose vectors are nearest."""
    vocabulary = AutoTokenizer.from_pretrained(encoder).get_vocab()
    words = [word for word in vocabulary if re.fullmatch(r"[a-z]{3,}", word)]
    table = AutoModel.from_pretrained(encoder).get_input_embeddings().weight.detach()
    vectors = torch.nn.functional.normalize(table[[vocabulary[word] for word in words]])
    near = torch.cat([(part @ vectors.T).topk(NEIGHBOURS + 1).indices[:, 1:] for part in vectors.split(1000)])
    return {word: [words[i] for i in row] for word, row in zip(words, near.tolist(), strict=True)}


def replaced_phrases(count: int, encoder: str) -> Iterator[str]:
    """Phrases of SST-2, longer ones first, each once until there are `count`, some of their words replaced."""
    similar, chance = similar_words(encoder), random.Random(0)
    phrases = sorted(load_split(get_task("sst2"), "train").texts, key=len, reverse=True)
    for phrase in islice((p for _ in range(10) for p in phrases[: max(1, count // 2)]), count):
        yield " ".join(
            chance.choice(similar[word]) if word in similar and chance.random() < SHARE else word
            for word in phrase.split()
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["conll2003", "sst2"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--encoder", default="")
    parser.add_argument("--count", type=int, default=60_000)
    given = parser.parse_args()
    if given.task == "sst2" and not given.encoder:
        parser.error("sst2 wants --encoder")
    texts = (
        wikipedia_sentences(given.count) if given.task == "conll2003" else replaced_phrases(given.count, given.encoder)
    )
    given.file.parent.mkdir(parents=True, exist_ok=True)
    given.file.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
