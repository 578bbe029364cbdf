"""From the numbers of an audit to a headline and three sentences of advice. It knows numbers, and no model."""

from collections.abc import Sequence
from typing import Any

FEW = 0.01  # flips that most users can live with
SIGNIFICANT = 3.0  # standard errors above guessing: more than chance
WORSE = 3.0  # a spread over slots that is this many times what chance gives

Result = dict[str, Any]


def part(results: Sequence[Result], name: str) -> list[Result]:
    """The results of one question, the smallest group first."""
    return sorted((r for r in results if r["part"] == name), key=lambda r: r["group_size"])


def headline_of(results: Sequence[Result]) -> str:
    """One sentence about the largest group."""
    steady, attack, leak = (part(results, name)[-1] for name in ("consistency", "worst case", "leakage"))
    return (
        f"At {steady['group_size']} texts per pass, {steady['flips']:.1%} of the answers change when only the "
        f"neighbours change; chosen neighbours change {attack['success']:.0%} of the right answers within "
        f"{attack['tries']} tries; a neighbour's label is read from another text's logits with "
        f"{leak['label_from_logits']:.1%} (guessing: {leak['chance']:.1%})."
    )


def advice_of(results: Sequence[Result]) -> list[str]:
    """Three sentences: which group size, who may share a pass, and whether the slots can be trusted."""
    return [_about_size(results), _about_sharing(results), _about_slots(results)]


def _about_size(results: Sequence[Result]) -> str:
    steady = part(results, "consistency")
    calm = [r for r in steady if r["flips"] <= FEW]
    most = steady[-1]
    if calm and calm[-1] is most:
        return f"Use any group size: at most {most['flips']:.1%} of the answers depend on who shares the pass."
    rest = f"at {most['group_size']} it is {most['flips']:.1%}"
    if calm:
        return (
            f"Up to {calm[-1]['group_size']} texts per pass, 1% of the answers or fewer depend on neighbours; {rest}."
        )
    first = steady[0]
    return (
        f"Use one text per pass where answers must be repeatable: {first['flips']:.1%} of the answers depend on "
        f"neighbours at {first['group_size']} texts per pass already, and {rest}."
    )


def leaks(result: Result) -> bool:
    """Whether a neighbour's label is read better than by guessing, from the states or from the logits."""
    best = max(result["label_from_state"], result["label_from_logits"])
    return bool(best > result["chance"] + SIGNIFICANT * result["error"])


def _about_sharing(results: Sequence[Result]) -> str:
    attack, leak = part(results, "worst case")[-1], part(results, "leakage")[-1]
    reasons = []
    if attack["success"] > 0:
        reasons.append(f"chosen neighbours changed {attack['success']:.0%} of the right answers")
    if leaks(leak):
        best = max(leak["label_from_state"], leak["label_from_logits"])
        reasons.append(f"a neighbour's label can be read with {best:.1%} where guessing gives {leak['chance']:.1%}")
    if not reasons:
        return (
            "Neither the search nor the probe got anywhere; still keep the texts of different customers apart, "
            "because a stronger attack may."
        )
    return f"Never let the texts of different customers share a pass: {', and '.join(reasons)}."


def _about_slots(results: Sequence[Result]) -> str:
    where, control = part(results, "position")[-1], part(results, "mixture read")[-1]
    far = control["from_neighbour"] - control["guessing"]
    if far > 0.5 * (control["score"] - control["guessing"]):
        return (
            f"Do not trust this model: it scores {control['from_neighbour']:.1%} from the neighbour's part of the "
            f"mixture, so its answers hardly come from the mixture."
        )
    ends = f"{where['worst']:.1%} to {where['best']:.1%}"
    if where["spread"] > WORSE * where["expected"]:
        return f"The slots differ more than by chance ({ends}): put texts that matter into the better ones."
    return f"Every slot can be used: they score {ends}, which is no more apart than chance explains."
