"""Texts for a teacher to label (`--set task.unlabelled=FILE`): what the models in the package learn from, too.

python experiments/unlabelled.py conll2003 FILE.txt           sentences of Wikipedia, words and signs apart
python experiments/unlabelled.py sst2 FILE.txt --encoder E    its training phrases, some words replaced by others whose
                                                              vectors in the pretrained encoder E are similar
python experiments/unlabelled.py qqp FILE.jsonl --encoder E   pairs of its training questions, most of them alike to E,
                                                              a sentence encoder
"""

import argparse
import json
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
CLOSE = 0.75  # of pairs whose questions are close; the others are any two


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


@torch.inference_mode()
def sentence_vectors(texts: list[str], encoder: str) -> torch.Tensor:
    """The mean of an encoder's states over each text, of length one."""
    tokenizer, model = AutoTokenizer.from_pretrained(encoder), AutoModel.from_pretrained(encoder).eval()
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


def question_pairs(count: int, encoder: str) -> Iterator[str]:
    """Pairs of questions as JSON lines: each question beside one of its nearest, or beside any other."""
    rows, chance = load_split(get_task("qqp"), "train"), random.Random(0)
    questions = sorted({*rows.texts, *(rows.pairs or ())})
    vectors = sentence_vectors(questions, encoder)
    near = torch.cat([(part @ vectors.T).topk(NEIGHBOURS + 1).indices[:, 1:] for part in vectors.split(1000)]).tolist()
    given = {frozenset(pair) for pair in zip(rows.texts, rows.pairs or (), strict=True)}
    made = set()
    while len(made) < count:
        one = chance.randrange(len(questions))
        other = chance.choice(near[one]) if chance.random() < CLOSE else chance.randrange(len(questions))
        pair = frozenset((questions[one], questions[other]))
        if len(pair) == 2 and pair not in given and pair not in made:
            made.add(pair)
            yield json.dumps({"question1": questions[one], "question2": questions[other]})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["conll2003", "sst2", "qqp"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--encoder", default="")
    parser.add_argument("--count", type=int, default=60_000)
    given = parser.parse_args()
    if given.task != "conll2003" and not given.encoder:
        parser.error(f"{given.task} wants --encoder")
    make = {"conll2003": lambda count, _: wikipedia_sentences(count), "sst2": replaced_phrases, "qqp": question_pairs}
    texts = make[given.task](given.count, given.encoder)
    given.file.parent.mkdir(parents=True, exist_ok=True)
    given.file.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
