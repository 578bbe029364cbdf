#!/usr/bin/env bash
# What makes the retrieval warm-up work: short runs at capacity 10 that differ from the first in one thing each.
#   DATAMUX_DATA=... experiments/ablation.sh       records go to experiments/results/ablation
set -eu
cd "$(dirname "$0")/.."
runs=${RUNS:-runs} records=experiments/results/ablation
datamux=${DATAMUX:-.venv/bin/datamux}
tokenizer=$runs/warmup-n20-seed0/tokenizer
[ -d "$tokenizer" ] || { echo "run experiments/small.sh warmup first: its tokenizer is used here" >&2; exit 2; }

try() { # NAME SETTINGS...
  name=$1; shift
  settings=(); for setting in "$@"; do settings+=(--set "$setting"); done
  $datamux train small/warmup-n20 -o "$runs/ablation-$name" --set model.tokenizer="$tokenizer" \
    --set model.num_instances=10 --set 'model.demultiplexer_options={ hidden_dim = 512 }' --set warmup.steps=400 --set warmup.groups=24 \
    --set warmup.threshold=0.85 --set model.multiplexer=gaussian_hadamard \
    --set run.eval_steps=400 --set run.save_steps=400 "${settings[@]}"
  $datamux evaluate "$runs/ablation-$name/warmup/model" --task wikipedia_en -k 1 -k 5 -k 10 --record "$records/$name.json"
}

try gate
try key model.demultiplexer=key
try index model.demultiplexer=index
try mlp model.demultiplexer=mlp 'model.demultiplexer_options={ hidden_dim = 256 }'
try dropout-0.1 model.dropout=0.1
try mean-scale 'model.multiplexer_options={ scale = "mean" }'
try sign-keys model.multiplexer=sign
try no-curriculum warmup.start_size=10
try one-instance-a-position warmup.objective=one
