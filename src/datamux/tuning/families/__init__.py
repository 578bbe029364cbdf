"""The families of contenders. A new family is one file with a function `contenders`, and one line here."""

from collections.abc import Callable, Mapping

from datamux.tuning.contender import Contender
from datamux.tuning.families import cut, cut_and_mixed, mixed, narrow, words
from datamux.tuning.subject import Subject

FAMILIES: Mapping[str, Callable[[Subject], list[Contender]]] = {
    "words": words.contenders,
    "cut": cut.contenders,
    "narrow": narrow.contenders,
    "mixed": mixed.contenders,
    "cut and mixed": cut_and_mixed.contenders,
}
