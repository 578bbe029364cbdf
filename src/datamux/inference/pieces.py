"""Tokenising at the speed of a look-up, for tokenizers that never look across a space.

A multiplexed model answers so many texts a second that splitting words becomes a large part of the work. Most words
of a text were seen before: here every piece between two spaces is tokenised once, and remembered.
"""

import json
from collections.abc import Sequence

from tokenizers import Tokenizer

REMEMBERED = 500_000  # pieces; when there are more, all are forgotten
LONGEST = 32  # letters of a piece that is remembered: longer ones are hardly seen again
NORMALIZERS = (None, "BertNormalizer", "Lowercase")
PRE_TOKENIZERS = ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")


class Pieces:
    """Token ids of texts, special tokens included, cut at `max_tokens`: exactly those of the tokenizer itself."""

    def __init__(self, tokenizer: Tokenizer, max_tokens: int) -> None:
        self._tokenizer = Tokenizer.from_str(tokenizer.to_str())
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        example = self._tokenizer.encode("a")
        inner = [place for place, special in enumerate(example.special_tokens_mask) if not special]
        self._before, self._after = example.ids[: inner[0]], example.ids[inner[-1] + 1 :]
        self._room = max_tokens - len(self._before) - len(self._after)
        self._known: dict[str, list[int]] = {}

    def __call__(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """(the ids of each text, how many texts were cut)."""
        split = [text.split(" ") for text in texts]
        known = self._learned({piece for pieces in split for piece in pieces})
        before, after, room = self._before, self._after, self._room
        rows, cut = [], 0
        for pieces in split:
            row = before.copy()
            for piece in pieces:
                row += known[piece]
            if len(row) - len(before) > room:
                del row[len(before) + room :]
                cut += 1
            row += after
            rows.append(row)
        return rows, cut

    def _learned(self, pieces: set[str]) -> dict[str, list[int]]:
        """A table that has all of `pieces`. Tables only grow: another thread may be reading an older one."""
        known = self._known if len(self._known) < REMEMBERED else {}
        new = [piece for piece in pieces if piece not in known]
        found = self._tokenizer.encode_batch_fast(new, add_special_tokens=False)
        pairs = [(piece, encoding.ids) for piece, encoding in zip(new, found, strict=True)]
        known.update(pair for pair in pairs if len(pair[0]) <= LONGEST)
        self._known = known
        long = {piece: ids for piece, ids in pairs if len(piece) > LONGEST}
        return known | long if long else known


def never_looks_across_spaces(tokenizer: Tokenizer) -> bool:
    """Whether the tokens of a text are those of its pieces, one after the other."""
    settings = json.loads(tokenizer.to_str())
    kinds = [(settings[part] or {}).get("type") for part in ("normalizer", "pre_tokenizer")]
    added = settings["added_tokens"]
    plain = not any(
        t["lstrip"] or t["rstrip"] or t["single_word"] or any(map(str.isspace, t["content"])) for t in added
    )
    right = (settings["truncation"] or {}).get("direction", "Right") == "Right"
    word = tokenizer.encode("a")
    return (
        kinds[0] in NORMALIZERS and kinds[1] in PRE_TOKENIZERS and plain and right and not all(word.special_tokens_mask)
    )
