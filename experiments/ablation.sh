#!/usr/bin/env bash
# What makes each stage work: short runs that differ from the first in one thing each.
#   DATAMUX_DATA=... experiments/ablation.sh warmup      retrieval at capacity 10; records go to experiments/results/ablation
#   DATAMUX_DATA=... experiments/ablation.sh task        SST-2 at capacity 20; records go to experiments/results/ablation-sst2
# Wants the warm-up of small.sh (its tokenizer), and for the task its warm-up and plain SST-2 model.
# What has a record already is not run again.
set -eu
cd "$(dirname "$0")/.."
runs=${RUNS:-runs} records=experiments/results
datamux=${DATAMUX:-.venv/bin/datamux}
warm=$runs/warmup-n20-seed0 plain=$runs/sst2-plain-seed0
[ -d "$warm/warmup/model" ] || { echo "run experiments/small.sh warmup first: its tokenizer is used here" >&2; exit 2; }

try() { # NAME SETTINGS...
  name=$1; shift
  settings=(); for setting in "$@"; do settings+=(--set "$setting"); done
  "try_$stage" "$name" "${settings[@]}"
}
try_warmup() {
  [ ! -f "$records/ablation/$1.json" ] || return 0
  $datamux train small/warmup-n20 -o "$runs/ablation-$1" --set model.tokenizer="$warm/warmup/model" \
    --set model.num_instances=10 --set 'model.demultiplexer_options={ hidden_dim = 512 }' --set warmup.steps=400 --set warmup.groups=24 \
    --set warmup.threshold=0.85 --set model.multiplexer=gaussian_hadamard \
    --set run.eval_steps=400 --set run.save_steps=400 "${@:2}"
  $datamux evaluate "$runs/ablation-$1/warmup/model" --task wikipedia_en -k 1 -k 5 -k 10 \
    --record "$records/ablation/$1.json"
}
try_task() {
  [ ! -f "$records/ablation-sst2/$1.json" ] || return 0
  $datamux train small/sst2-n20 -o "$runs/ablation-sst2-$1" --set model.start="$warm/warmup/model" --set task.steps=600 \
    --set task.teacher="$plain/task/model" --set task.distill_logits=0.5 --set run.eval_steps=600 --set run.save_steps=600 "${@:2}"
  $datamux evaluate "$runs/ablation-sst2-$1/task/model" --task sst2 --split validation \
    --split test -k 1 -k 20 --groupings 1 --record "$records/ablation-sst2/$1.json"
}

stage=${1:-warmup}
case $stage in
  warmup)
    try gate
    try key model.demultiplexer=key
    try index model.demultiplexer=index
    try mlp model.demultiplexer=mlp 'model.demultiplexer_options={ hidden_dim = 256 }'
    try dropout-0.1 model.dropout=0.1
    try mean-scale 'model.multiplexer_options={ scale = "mean" }'
    try sign-keys model.multiplexer=sign
    try no-curriculum warmup.start_size=10
    try one-instance-a-position warmup.objective=one
    ;;
  task)
    try as-is
    try first-token model.pooling=first
    try no-teacher task.teacher="" task.distill_logits=0.0
    try no-warmup model.start="" model.needs_start=false model.tokenizer="$warm/warmup/model"
    try no-curriculum task.start_size=20
    try one-size task.elastic=0.0
    try no-retrieval task.alpha=0.0
    try bypass model.bypass=true
    try contextual-no-warmup model.multiplexer=contextual model.start="" model.needs_start=false model.tokenizer="$warm/warmup/model"
    masked=$runs/warmup-n20-masked-seed0 # a seventh of the words hidden: attention has to be used
    [ -f "$masked/warmup/model/training.json" ] || # of small.sh with MASKED=true
      $datamux train small/warmup-n20 -o "$masked" --set model.tokenizer="$warm/warmup/model" --set warmup.mask_rate=0.15
    try masked-words model.start="$masked/warmup/model"
    ;;
  *) echo "which stage? warmup or task, not $stage" >&2; exit 2 ;;
esac
