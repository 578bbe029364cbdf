"""The rules for the paper's claims about images, from the records of MNIST."""

from datamux.reproduce.images.rows import rows_of
from datamux.reproduce.paper.verdict import NotRun, Verdict, Word, rule
from datamux.reproduce.records import committed, has_record

CLOSE = 5.0  # points: the paper says "about"


def _value(name: str, series: str, n: int) -> float:
    if not has_record(name):
        raise NotRun(name)
    for row in rows_of(committed(name)):
        if (row["series"], row["n"]) == (series, n):
            return float(row["value"])
    raise NotRun(f"{series} at N = {n} in {name}")


def _about(name: str, series: str, n: int, stated: float) -> Verdict:
    found = _value(name, series, n)
    word: Word = "holds" if abs(found - stated) <= CLOSE else "does not hold"
    return Verdict(word, f"{found:.1f}% here, about {stated:g}% in the paper.")


@rule
def pca() -> Verdict:
    record = committed("mnist-pca")
    found = {row["series"]: row["value"] for row in record["rows"]}
    wrong, right = found.get("as_published"), next(v for s, v in found.items() if s != "as_published")
    word: Word = "holds" if abs(right - 86.54) < 0.5 else "does not hold"
    return Verdict(word, f"{right:.1f}%; about a wrong mean it would be {wrong:.1f}%.")


@rule
def mlp() -> Verdict:
    return _about("mnist-mlp", "ortho", 8, 78.0)


@rule
def cnn() -> Verdict:
    return _about("mnist-cnn", "ortho", 8, 56.0)


@rule
def nonlinear() -> Verdict:
    found = _value("mnist-cnn", "nonlinear_as_published", 4)
    return Verdict("holds" if found > 80 else "does not hold", f"{found:.1f}% at N = 4.")


@rule
def rotation() -> Verdict:
    two, four = (_value("mnist-cnn-kernels", "rotation_as_published", n) for n in (2, 4))
    return Verdict("holds" if two > 80 > four else "does not hold", f"{two:.1f}% at N = 2, {four:.1f}% at N = 4.")


@rule
def mosaic() -> Verdict:
    published, fixed = (_value("mnist-cnn-kernels", name, 4) for name in ("mosaic_as_published", "mosaic"))
    word: Word = "does not hold" if fixed > 60 else "holds"
    return Verdict(
        word, f"N = 4: {published:.1f}% as published, where a mistake drops images; {fixed:.1f}% without it."
    )
