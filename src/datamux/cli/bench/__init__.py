"""`datamux bench`: speed and memory against a plain model with the same encoder, and where the time goes."""

import typer

import datamux.cli.bench.breakdown as breakdown
import datamux.cli.bench.cluster as cluster
import datamux.cli.bench.memory as memory
import datamux.cli.bench.serve as serve
import datamux.cli.bench.soak as soak
import datamux.cli.bench.speed as speed

bench = typer.Typer(
    no_args_is_help=True,
    help="Measure speed and memory against a plain model with the same encoder, and see where the time goes.",
)
bench.command("speed")(speed.speed)
bench.command("memory")(memory.memory)
bench.command("breakdown")(breakdown.breakdown)
bench.command("soak")(soak.soak)
bench.command("serve")(serve.serve)
bench.command("cluster")(cluster.cluster)
