"""What a pretrained sentence encoder says about a corpus: one vector per sentence and one per word.

The teacher is asked once, shard by shard, and its answers are kept for all its students and for a restarted run. They
are projected onto the student's width by the directions in which the teacher's states vary most, so that student and
teacher need neither the same width nor the same word pieces: a student's piece learns from the teacher's piece that
begins at the same character.
"""

import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from datamux.hub import MuxConfig
from datamux.hub.loading import load_config, load_encoder, load_model, load_tokenizer
from datamux.tasks.rows import Batch, Rows
from datamux.train.data import cached

logger = logging.getLogger(__name__)
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')]?\s+(?=[A-Z0-9\"'(])")
WORDS = (3, 48)  # shorter and longer sentences are left out
SHARD = 10_000  # sentences that are answered, and saved, at a time
BATCH_TOKENS = 4096  # that the teacher reads at once
FOR_DIRECTIONS = 4_000  # sentences from which the directions are found
TOKEN_DIM = 128  # of a word's state the first directions are kept; a sentence's vector has all


def split_sentences(lines: Iterable[str]) -> Iterator[str]:
    """The sentences of paragraphs, without headings and without very short or long ones."""
    for line in lines:
        if line.startswith("= "):
            continue
        for sentence in SENTENCE_END.split(line.strip()):
            if WORDS[0] <= sentence.count(" ") + 1 <= WORDS[1]:
                yield sentence


class SentencesWithTeacher(Rows):
    """Sentences with what the teacher says about each of them: the words are the labels, as in the warm-up's chunks."""

    def __init__(self, ids: Sequence[Sequence[int]], *, pad_id: int, vectors: Tensor, states: Tensor) -> None:
        super().__init__(ids, pad_id=pad_id)
        self.vectors = vectors  # i d
        self.states = states  # (all tokens) e; zero where the teacher has no piece that begins there

    def batch(self, indices: Sequence[int] | Tensor) -> Batch:
        batch = super().batch(indices)
        which = torch.as_tensor(indices)
        starts, ends = self.starts[which], self.ends[which]
        place = starts[:, None] + torch.arange(int((ends - starts).max()))
        place = place.clamp(max=len(self.ids) - 1)
        batch["labels"] = batch["input_ids"]
        batch["teacher_vectors"] = self.vectors[which]
        batch["teacher_states"] = self.states[place]
        return batch


@dataclass
class Directions:
    """The teacher's mean state (d), and the directions (d e) in which its states vary most."""

    mean: Tensor
    basis: Tensor

    def project(self, states: Tensor) -> Tensor:
        return (states.float() - self.mean) @ self.basis


def sentences_with_teacher(
    texts: Iterable[str],
    teacher_name: str,
    tokenizer: PreTrainedTokenizerBase,
    dim: int,
    folder: Path,
    *,
    seed: int = 0,
) -> SentencesWithTeacher:
    """The sentences of `texts` in random order, with the teacher's answers; `folder` keeps these answers."""
    sentences = list(dict.fromkeys(texts))
    Random(seed).shuffle(sentences)
    teacher = load_encoder(teacher_name).requires_grad_(False)
    theirs = load_tokenizer(teacher_name)
    about = sha256(f"{len(sentences)} {dim} {TOKEN_DIM} {teacher.config.name_or_path}".encode())
    about.update("\n".join(sentences[:: max(1, len(sentences) // 10_000)]).encode())
    about.update("\n".join(tokenizer.convert_ids_to_tokens(range(len(tokenizer)))).encode())
    place = folder / f"teacher-{about.hexdigest()[:12]}"
    directions = _directions(teacher, theirs, sentences[:FOR_DIRECTIONS], dim, place)
    vectors, states = [], []
    ids: list[list[int]] = []
    for number in tqdm(range(0, len(sentences), SHARD), desc="asking the teacher", unit="shard"):
        some = sentences[number : number + SHARD]
        encoded = tokenizer(some, truncation=True, max_length=64, return_offsets_mapping=True)
        ids.extend(encoded["input_ids"])
        file = place / f"shard-{number // SHARD:04d}.pt"
        if not file.exists():
            _save(_ask(teacher, theirs, some, encoded["offset_mapping"], directions), file)
        said = torch.load(file, mmap=True)
        vectors.append(said["vectors"])
        states.append(said["states"])
    assert tokenizer.pad_token_id is not None
    return SentencesWithTeacher(
        ids, pad_id=tokenizer.pad_token_id, vectors=torch.cat(vectors), states=torch.cat(states)
    )


def _save(what: dict[str, Tensor], file: Path) -> None:
    part = file.with_suffix(f".{os.getpid()}.part")
    torch.save(what, part)
    part.replace(file)


def _directions(
    teacher: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sentences: list[str], dim: int, place: Path
) -> Directions:
    width = teacher.config.hidden_size
    if width < dim:
        raise ValueError(
            f"the teacher {teacher.name_or_path} has states of {width} numbers, fewer than the {dim} of this model; "
            f"set model.hidden to at most {width}, or choose a wider teacher"
        )

    def find() -> Tensor:
        found = torch.cat([states for _, states, _ in _read(teacher, tokenizer, sentences)]).float()
        mean = found.mean(0)
        _, basis = torch.linalg.eigh((found - mean).T @ (found - mean))
        return torch.cat([mean[None], basis.flip(1)[:, :dim].T])

    found = cached(place / "directions.pt", find)
    return Directions(found[0], found[1:].T.contiguous())


@torch.inference_mode()
def _read(
    teacher: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sentences: list[str]
) -> Iterator[tuple[int, Tensor, list[tuple[int, int]]]]:
    """For each sentence its number, the teacher's states (l d), and which characters each piece stands for."""
    encoded = tokenizer(sentences, truncation=True, max_length=96, return_offsets_mapping=True)
    order = sorted(range(len(sentences)), key=lambda row: len(encoded["input_ids"][row]))
    while order:
        longest = len(encoded["input_ids"][order[-1]])
        rows = order[-max(1, BATCH_TOKENS // longest) :]
        order = order[: -len(rows)]
        batch: Any = tokenizer.pad({"input_ids": [encoded["input_ids"][row] for row in rows]}, return_tensors="pt")
        with torch.autocast("cpu", torch.bfloat16):
            states = teacher(**batch).last_hidden_state
        for row, found, mask in zip(rows, states, batch["attention_mask"], strict=True):
            yield row, found[: int(mask.sum())], encoded["offset_mapping"][row]


def _ask(
    teacher: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: list[str],
    offsets: list[list[tuple[int, int]]],
    directions: Directions,
) -> dict[str, Tensor]:
    """The teacher's vectors and states; `offsets` are the characters of the student's pieces."""
    vectors = torch.zeros(len(sentences), directions.basis.shape[1], dtype=torch.bfloat16)
    states: list[Tensor] = [torch.empty(0)] * len(sentences)
    for row, said, pieces in _read(teacher, tokenizer, sentences):
        projected = directions.project(said)
        vectors[row] = projected.mean(0).bfloat16()
        begins = {start: number for number, (start, end) in enumerate(pieces) if end > start}
        mine = torch.tensor([begins.get(start, -1) if end > start else -1 for start, end in offsets[row]])
        found = projected[mine.clamp(min=0), :TOKEN_DIM].bfloat16()
        states[row] = found.masked_fill((mine < 0)[:, None], 0)
    return {"vectors": vectors, "states": torch.cat(states)}


@torch.no_grad()
def copy_word_vectors(model: Any, tokenizer: PreTrainedTokenizerBase, teacher_name: str) -> int:
    """Start the word vectors of a new model from the teacher's; returns how many words were found there.

    Each of the student's pieces takes the vector of the same piece in small letters, in the directions in which the
    teacher's word vectors vary most, at the size of the new model's own.
    """
    ours = isinstance(load_config(teacher_name), MuxConfig)
    teacher = load_model(teacher_name) if ours else load_encoder(teacher_name)
    given = teacher.get_input_embeddings().weight
    own = model.get_input_embeddings().weight
    known = load_tokenizer(teacher_name).get_vocab()
    centred = given - given.mean(0)
    _, basis = torch.linalg.eigh(centred.T @ centred)
    table = centred @ basis.flip(1)[:, : own.shape[1]]
    table = table * (own.std() / table.std())
    pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    pairs = [(mine, known[piece.lower()]) for mine, piece in enumerate(pieces) if piece.lower() in known]
    mine, theirs = (list(numbers) for numbers in zip(*pairs, strict=True))
    own[mine] = table[theirs]
    return len(pairs)


def first_pieces(sentences: Iterable[str], tokenizer: PreTrainedTokenizerBase, pieces: int) -> Iterator[str]:
    """The first sentences, until they have about that many word pieces."""
    stream = iter(sentences)
    while pieces > 0 and (some := list(islice(stream, 1000))):
        yield from some
        pieces -= sum(map(len, tokenizer(some, add_special_tokens=False)["input_ids"]))
