"""The rules for the paper's claims about images, from the records of MNIST."""

from itertools import pairwise

from datamux.reproduce.images.rows import rows_of
from datamux.reproduce.paper.verdict import NotRun, Verdict, Word, listed, rule, share
from datamux.reproduce.records import Record, committed, has_record

CLOSE = 5.0  # points: the paper says "about"
SIGNIFICANT = 5.0  # points: a drop that the paper calls none
CNN, MLP, KERNELS = "mnist-cnn", "mnist-mlp", "mnist-cnn-kernels"


def _record(name: str) -> Record:
    if not has_record(name):
        raise NotRun(name)
    return committed(name)


def _value(name: str, series: str, n: int, of: str = "value") -> float:
    for row in rows_of(_record(name)):
        if (row["series"], row["n"]) == (series, n):
            return float(row[of])
    raise NotRun(f"{series} at N = {n} in {name}")


def _values(name: str, series: str, sizes: tuple[int, ...], of: str = "value") -> dict[int, float]:
    return {n: _value(name, series, n, of) for n in sizes}


def _about(name: str, series: str, n: int, stated: float) -> Verdict:
    found = _value(name, series, n)
    word: Word = "holds" if abs(found - stated) <= CLOSE else "does not hold"
    return Verdict(word, f"{found:.1f}% here, about {stated:g}% in the paper.")


@rule
def pca() -> Verdict:
    found = {row["series"]: row["value"] for row in _record("mnist-pca")["rows"]}
    wrong, right = found.get("as_published"), next(v for s, v in found.items() if s != "as_published")
    word: Word = "holds" if abs(right - 86.54) < 0.5 else "does not hold"
    return Verdict(word, f"{right:.1f}%. The paper's {wrong:.1f}% comes from subtracting the wrong mean.")


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


@rule
def identity() -> Verdict:
    """The share 1 / N, for N > 1: which of the N answers belongs to which image is lost."""
    found = _values(MLP, "identity", (2, 4, 8, 16))
    met = sum(abs(value - 100 / n) <= CLOSE for n, value in found.items())
    word = share(met, len(found))
    return Verdict(word, f"{listed(found, '%')}: the share 1 / N, and what a guess among ten digits adds to it.")


@rule
def low_rank() -> Verdict:
    gain = _value(MLP, "low_rank", 8) - _value(MLP, "ortho", 8)
    word: Word = "holds" if abs(gain - 5) <= CLOSE / 2 else "holds in part" if gain > 0 else "does not hold"
    return Verdict(word, f"{gain:+.1f} points at N = 8.")


@rule
def no_drop() -> Verdict:
    """Against the same network at N = 1, with the multiplexer that the paper shows for it."""
    lost = {
        f"{title} at N = {n}": _value(name, series, 1) - _value(name, series, n)
        for title, name, series, n in (("MLP, Ortho", MLP, "ortho", 8), ("CNN", CNN, "nonlinear_as_published", 4))
    }
    met = sum(points <= SIGNIFICANT for points in lost.values())
    return Verdict(share(met, len(lost)), f"{', '.join(f'{p:.1f} points lost, {where}' for where, p in lost.items())}.")


@rule
def index_spread() -> Verdict:
    sizes = (8, 16)
    maps = _values(KERNELS, "nonlinear_as_published", sizes, "spread")
    turned = _values(KERNELS, "rotation_as_published", sizes, "spread")
    met = sum(abs(spread - 7) <= CLOSE for spread in maps.values())
    met += sum(10 <= round(spread) <= 24 for spread in turned.values())
    return Verdict(share(met, 4), f"Nonlinear maps: {listed(maps)}; rotations: {listed(turned)}.")


@rule
def other_kernels() -> Verdict:
    sizes = (2, 4, 8, 16)
    turned = _values(KERNELS, "rotation_as_published", sizes)
    found = {name: _values(KERNELS, f"{name}_kernel", sizes) for name in ("random", "learned")}
    met = sum(values[n] < turned[n] for values in found.values() for n in sizes)
    shown = "; ".join(f"{name}: {listed(values, '%')}" for name, values in found.items())
    return Verdict(share(met, 2 * len(sizes)), f"{shown}; rotations: {listed(turned, '%')}.")


@rule
def wider_maps() -> Verdict:
    """Each step to wider maps has to help at every N from 4 on."""
    sizes = (4, 8, 16)
    found = [_values(KERNELS, f"nonlinear{wide}_as_published", sizes) for wide in ("", "_4x", "_8x")]
    better = [more[n] > less[n] for less, more in pairwise(found) for n in sizes]
    shown = "; ".join(f"{wide}: {listed(values, '%')}" for wide, values in zip(("1x", "4x", "8x"), found, strict=True))
    return Verdict(share(sum(better), len(better)), f"{shown}.")
