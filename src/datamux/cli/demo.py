"""`datamux demo`: the whole method on real digits, in well under a minute, with nothing to download."""

import json
from statistics import fmean, median
from typing import Annotated

import typer

from datamux.cli.output import show_table

GROUP_SIZES = (1, 2, 4, 8)


def demo(
    steps: Annotated[int, typer.Option(min=1, help="Training steps of each network.")] = 3000,
    seed: Annotated[int, typer.Option(help="Seed of weights, keys and batches.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Train the paper's MLP on 1,797 real digits for 1, 2, 4 and 8 images a pass, and measure each."""
    from rich.console import Console
    from rich.progress import track

    from datamux.evaluate.speed import take_turns
    from datamux.tasks.images import from_scikit_learn
    from datamux.train.image_networks import ImageNetwork
    from datamux.train.images import Protocol, accuracy_by_slot, train_on_images

    data = from_scikit_learn(side=8)
    # This network has no normalisation, so the mixture must keep the size of one input.
    network = ImageNetwork("mlp", "ortho", {"scale": "sqrt"})
    protocol = Protocol(rate=0.2, steps=steps, epochs=1)
    models = [network.build_plain(dim=64, seed=seed), *(network.build(n, dim=64, seed=seed) for n in GROUP_SIZES[1:])]
    progress = Console(stderr=True)
    for model in track(models, description="training", console=progress, transient=True):
        train_on_images(model, data, protocol, seed=seed)
    rates = take_turns(models, data.test_images)
    plain = rates[0]
    rows = []
    for n, model, seen in zip(GROUP_SIZES, models, rates, strict=True):
        ratios = [mine / theirs for mine, theirs in zip(seen, plain, strict=True)]
        rows.append(
            {
                "images_a_pass": n,
                "accuracy": fmean(accuracy_by_slot(model, data)),
                "images_a_second": median(seen),
                "ratio": median(ratios),
                "ratio_lowest": min(ratios),
                "ratio_highest": max(ratios),
            }
        )
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    shown = []
    for row in rows:
        spread = f"{row['ratio']:.2f}x ({row['ratio_lowest']:.2f} to {row['ratio_highest']:.2f})"
        name = "1 (plain)" if row["images_a_pass"] == 1 else f"{row['images_a_pass']}"
        shown.append((name, f"{row['accuracy']:.1%}", f"{row['images_a_second']:,.0f}", spread))
    console = Console()
    console.print("The paper's MLP (64-100-20 a slot-10) on scikit-learn's digits, random orthogonal keys.")
    console.print(f"{len(data.train_labels)} training and {len(data.test_labels)} test images, {steps} steps.\n")
    show_table(("images a pass", "accuracy", "images/s", "against plain"), shown)
    console.print(
        "\nEvery row is one network with the same hidden layer; only the number of images in its input differs."
        "\nThis network is so small that mixing costs about as much as running it: the gain comes with depth."
        "\nNext: README.md shows how to multiplex a Hugging Face encoder."
    )
