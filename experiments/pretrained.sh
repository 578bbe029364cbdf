#!/usr/bin/env bash
# A pretrained encoder, as it was run: plain fine-tuning, the same with its upper layers cut off, and multiplexed.
#   DATAMUX_DATA=... experiments/pretrained.sh ENCODER TASK [SEED]     ENCODER: folder or name; TASK: sst2 banking77 conll2003
# Everything lands in runs/ (change with RUNS) and goes on where it stopped; records go to experiments/results/TASK.
set -eu
cd "$(dirname "$0")/.."
encoder=$1 task=$2 seed=${3:-0} runs=${RUNS:-runs} records=experiments/results
datamux=${DATAMUX:-.venv/bin/datamux}
case $task in
  sst2) splits="--split validation --split test" ;;
  *) splits="--split test" ;;
esac
evaluate() { $datamux evaluate "$1/task/model" --task "$task" $splits --record "$records/$task/$2-seed$seed.json"; }

plain=$runs/minilm-$task-plain-seed$seed
$datamux train "small/minilm-$task-plain" -o "$plain" --set run.seed="$seed" --set model.start="$encoder"
evaluate "$plain" minilm-plain-6-layers
for m in ${MUX_LAYERS:-0 2}; do
  mux=$runs/minilm-$task-n10-m$m-seed$seed
  $datamux train "small/minilm-$task-n10" -o "$mux" --set run.seed="$seed" --set model.start="$plain/task/model" \
    --set task.teacher="$plain/task/model" --set model.mux_layer="$m"
  evaluate "$mux" "minilm-n10-mux-layer-$m"
done
for layers in ${CUT:-3 1}; do
  cut=$runs/minilm-$task-cut$layers-seed$seed
  $datamux train "small/minilm-$task-plain" -o "$cut" --set run.seed="$seed" --set model.start="$encoder" \
    --set model.keep_layers="$layers" --set task.teacher="$plain/task/model" --set task.distill_logits=0.7
  evaluate "$cut" "minilm-plain-$layers-layers"
done
