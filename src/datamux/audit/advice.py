"""From the numbers of an audit to a headline and three sentences of advice. It knows numbers, and no model."""

from collections.abc import Sequence
from typing import Any

import torch

FEW = 0.01  # flips that most users can live with
SIGNIFICANT = 3.0  # standard errors above guessing: more than chance
RARE = 0.001  # a spread over slots that equal slots show less often than this is no chance
ENOUGH = 200  # rows without which a probe cannot learn
MARGIN = 0.05  # above guessing: then a model knows something of the task

Result = dict[str, Any]


def part(results: Sequence[Result], name: str) -> list[Result]:
    """The results of one question, the smallest group first."""
    return sorted((r for r in results if r["part"] == name), key=lambda r: r["group_size"])


def headline_of(results: Sequence[Result]) -> str:
    """One sentence about the largest group."""
    steady, attack, leak = (part(results, name)[-1] for name in ("consistency", "worst case", "leakage"))
    return (
        f"At {steady['group_size']} texts per pass, {steady['flips']:.1%} of the answers change when only the "
        f"neighbours change; {_attack(attack)} within {attack['tries']} tries; {_readings(leak)}."
    )


def _attack(attack: Result) -> str:
    """What chosen and random neighbours did; to a tagger's text, one wrong word is enough."""
    what = "texts whose words were all right" if attack["words"] else "right answers"
    return (
        f"chosen neighbours change {attack['success']:.0%} of the {what} ({attack['changed']} of {attack['texts']}), "
        f"random ones {attack['by_chance']:.0%},"
    )


def _readings(leak: Result) -> str:
    """How well a neighbour's label is read from each of the two readings, and who can read it."""
    return (
        f"a probe names a neighbour's label from another text's logits in {leak['label_from_logits']:.1%} of cases, "
        f"and from its states, which only the operator sees, in {leak['label_from_state']:.1%} (guessing: "
        f"{leak['chance']:.1%})"
    )


def advice_of(results: Sequence[Result]) -> list[str]:
    """Three sentences: which group size, who may share a pass, and whether the slots can be trusted."""
    return [_about_size(results), _about_sharing(results), _about_slots(results)]


def _about_size(results: Sequence[Result]) -> str:
    """A size is calm if even the upper bound of its flips is small."""
    steady = part(results, "consistency")
    calm = [r for r in steady if r["upper"] <= FEW]
    most = steady[-1]
    if calm and calm[-1] is most:
        return (
            f"Use any group size: {most['flips']:.1%} of the answers depend on who shares the pass, and with 95% "
            f"certainty at most {most['upper']:.1%}."
        )
    rest = f"at {most['group_size']} it is {most['flips']:.1%} (at most {most['upper']:.1%})"
    if calm:
        return (
            f"Up to {calm[-1]['group_size']} texts per pass, 1% of the answers or fewer depend on neighbours; {rest}."
        )
    first = steady[0]
    if first["flips"] <= FEW:
        return (
            f"Ask about more texts: with {first['texts']} of them, up to {first['upper']:.1%} of the answers may "
            f"depend on neighbours at {first['group_size']} texts per pass, although {first['flips']:.1%} did; {rest}."
        )
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
        reasons.append(_attack(attack).rstrip(","))
    if leaks(leak):
        reasons.append(_readings(leak))
    few = f" The probe learned from only {leak['rows']} rows: give {ENOUGH} or more." if leak["rows"] < ENOUGH else ""
    if not reasons:
        return (
            "Neither the search nor the probe got anywhere; still keep the texts of different customers apart, "
            f"because a stronger attack may.{few}"
        )
    return f"Never let the texts of different customers share a pass: {', and '.join(reasons)}.{few}"


def _about_slots(results: Sequence[Result]) -> str:
    where, control = part(results, "position")[-1], part(results, "mixture read")[-1]
    known = control["score"] - control["guessing"]
    if known < MARGIN:
        return (
            f"This model scores {control['score']:.1%} where guessing gives {control['guessing']:.1%}: too little to "
            "say whether its slots are equal and its answers come from the mixture."
        )
    far = control["from_neighbour"] - control["guessing"]
    if far > 0.5 * known:
        return (
            f"Do not trust this model: it scores {control['from_neighbour']:.1%} from the neighbour's part of the "
            f"mixture, so its answers hardly come from the mixture."
        )
    ends = f"{where['worst']:.1%} to {where['best']:.1%}"
    if chance_of_spread(where) < RARE:
        return f"The slots differ more than by chance ({ends}): put texts that matter into the better ones."
    return f"Every slot can be used: they score {ends}, which chance explains."


def chance_of_spread(where: Result) -> float:
    """How often equal slots spread as far as these or farther: the tail of chi-square with k - 1 degrees of freedom."""
    k = where["group_size"]
    if where["expected"] == 0 or k < 2:
        return 1.0
    chi_square = k * (where["spread"] / where["expected"]) ** 2
    return float(torch.special.gammaincc(torch.tensor((k - 1) / 2), torch.tensor(chi_square / 2)))
