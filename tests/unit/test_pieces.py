"""Remembered pieces give exactly the tokens of the tokenizer, whatever the text."""

import pickle
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from datamux.inference import pieces
from datamux.inference.pieces import Pieces, never_looks_across_spaces
from datamux.inference.texts import Texts

LETTERS = "abcdeAÉé"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCAB = [*SPECIAL, *LETTERS, *(f"##{c}" for c in LETTERS), "bad", "##cab", ".", "中"]
IDS = {token: number for number, token in enumerate(VOCAB)}


def word_pieces(**options) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(IDS, unk_token="[UNK]", max_input_chars_per_word=8))
    tokenizer.normalizer = normalizers.BertNormalizer(**options)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", IDS["[SEP]"]), ("[CLS]", IDS["[CLS]"]))
    return tokenizer


TOKENIZERS = [word_pieces(lowercase=False), word_pieces(lowercase=True)]
parts = st.sampled_from([*"abcdeAÉé.中 \t\n\x1c\x85\u00a0\u0301\u200b", "  ", "bad", "[MASK]", "[SEP]", "aaaaaaaaaa"])


@given(st.lists(st.lists(parts, max_size=12).map("".join), max_size=4), st.integers(2, 9))
@example(["a\x1cb", "a\u0301", "[MASK].a", "", " "], 9)
def test_tokens_and_cuts_are_those_of_the_tokenizer(texts, max_tokens):
    for tokenizer in TOKENIZERS:
        assert never_looks_across_spaces(tokenizer)
        remembered = Pieces(tokenizer, max_tokens)
        whole = Tokenizer.from_str(tokenizer.to_str())
        whole.enable_truncation(max_tokens)
        expected = whole.encode_batch(texts)
        for _ in range(2):  # new, then remembered
            ids, lengths, cut = remembered(texts)
            assert ids.tolist() == [number for encoding in expected for number in encoding.ids]
            assert lengths.tolist() == [len(encoding.ids) for encoding in expected]
            assert cut == [row for row, encoding in enumerate(expected) if encoding.overflowing]


@given(
    st.lists(
        st.lists(parts, max_size=12).map("".join)
        | st.lists(st.lists(parts, min_size=1, max_size=3).map("".join), min_size=1, max_size=4),
        max_size=4,
    ),
    st.integers(3, 9),
)
@example(["a\x1cb", ["a\u0301", "bad."], "[MASK].a", "", [" "], ["a b", ""]], 9)
def test_words_stand_where_the_tokenizer_says(texts, max_tokens):
    for tokenizer in TOKENIZERS:
        backend = Tokenizer.from_str(tokenizer.to_str())
        fast = PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="[PAD]", model_max_length=max_tokens)
        looked_up, asked = (Texts(fast, max_tokens, token_level=True) for _ in range(2))
        assert looked_up._words is not None
        asked._words = None
        for _ in range(2 if texts else 0):  # new, then remembered
            one, other = looked_up.window(texts), asked.window(texts)
            assert one.rows.ids.equal(other.rows.ids)
            assert (one.texts, one.lengths, one.words, one.cut) == (other.texts, other.lengths, other.words, other.cut)


def test_too_many_pieces_are_forgotten(monkeypatch):
    monkeypatch.setattr(pieces, "REMEMBERED", 2)
    remembered = Pieces(TOKENIZERS[0], 9)
    first = ids_of(remembered, "a b c d")
    older = remembered._table  # another thread may be reading it
    assert ids_of(remembered, "bad") == ids_of(Pieces(TOKENIZERS[0], 9), "bad")
    assert list(remembered._table.number) == ["bad"]
    assert list(older.number) == list("abcd")
    assert ids_of(remembered, "a b c d") == first


def ids_of(remembered, *texts):
    return remembered(texts)[0].tolist()


def test_a_copy_learns_for_itself():
    remembered = Pieces(TOKENIZERS[0], 9)
    expected = ids_of(remembered, "a bad c")
    copy = pickle.loads(pickle.dumps(remembered))
    assert not copy._table.number
    assert ids_of(copy, "a bad c") == expected


def test_several_threads_may_ask_at_once(monkeypatch):
    monkeypatch.setattr(pieces, "REMEMBERED", 40)
    remembered = Pieces(TOKENIZERS[0], 99)
    chance = random.Random(0)
    asked = [" ".join("".join(chance.choices(LETTERS, k=3)) for _ in range(5)) for _ in range(300)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: ids_of(remembered, text), asked))
    assert found == [TOKENIZERS[0].encode(text).ids for text in asked]


class OneLooksEarlier(Pieces):
    """Whoever looks first sees the table as it was a moment ago."""

    ago = None

    @property
    def _table(self):
        seen, self.ago = self.ago or self.now, None
        return seen

    @_table.setter
    def _table(self, table):
        self.now = table


def test_a_table_that_another_thread_adds_to_meanwhile():
    remembered = OneLooksEarlier(TOKENIZERS[0], 9)
    ids_of(remembered, "a b")
    older = remembered._table
    expected = ids_of(remembered, "a bad c")
    remembered.ago = older
    assert max(older.find(["a", "bad", "c"])) >= len(older.sizes)
    assert ids_of(remembered, "a bad c") == expected


def byte_pairs() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE({"a": 0, "Ġ": 1}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    return tokenizer


def strips_spaces() -> Tokenizer:
    tokenizer = word_pieces()
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    return tokenizer


def cuts_on_the_left() -> Tokenizer:
    tokenizer = word_pieces()
    tokenizer.enable_truncation(5, direction="left")
    return tokenizer


@pytest.mark.parametrize("make", [byte_pairs, strips_spaces, cuts_on_the_left])
def test_others_are_asked_text_by_text(make):
    assert not never_looks_across_spaces(make())


def test_the_predictor_uses_it_for_texts_but_not_for_pairs(tokenizer):
    texts = Texts(tokenizer, 8, token_level=False)
    assert texts._pieces is not None
    assert texts.window(["good film", "the plot was not good . the plot was bad"]).cut == [1]
    assert texts.window([("good film", "bad film")]).rows.token_types is not None
    assert Texts(tokenizer, 8, token_level=True)._pieces is None


def test_a_new_line_as_a_token_of_its_own_is_not_looked_up():
    tokenizer = word_pieces()
    tokenizer.add_tokens(["\n"])
    assert not never_looks_across_spaces(tokenizer)


def test_texts_are_cut_on_the_side_that_the_tokenizer_says(tokenizer):
    tokenizer.truncation_side = "left"
    try:
        texts = Texts(tokenizer, 4, token_level=False)
        assert texts._pieces is None
        kept = texts.window(["good bad film plot"]).rows.ids.tolist()
        assert kept == tokenizer("good bad film plot", truncation=True, max_length=4)["input_ids"]
    finally:
        tokenizer.truncation_side = "right"
