#!/usr/bin/env bash
# The models that ship in the package: trained, measured, and packed into src/datamux/zoo.
#   DATAMUX_DATA=... experiments/zoo.sh ENCODER       ENCODER: the pretrained encoder (all-MiniLM-L6-v2) whose fine-tuned
#                                                     classifiers are the teachers
# Wants the warm-up of small.sh and the plain models of pretrained.sh, and makes them if they are not there.
# Everything lands in runs/ (change with RUNS) and goes on where it stopped; records go to experiments/results/zoo.
set -eu
cd "$(dirname "$0")/.."
encoder=$1 runs=${RUNS:-runs} records=experiments/results/zoo
datamux=${DATAMUX:-.venv/bin/datamux} python=${PYTHON:-.venv/bin/python}
experiments/small.sh warmup
warm=$runs/warmup-n20-seed0
for entry in "sentiment:sst2:--split validation --split test:3000:5000" "ner:conll2003:--split test:2500:1600"; do
  IFS=: read -r name task splits plain_steps steps <<< "$entry"
  MUX_LAYERS="" CUT="" experiments/pretrained.sh "$encoder" "$task"
  teacher=$runs/minilm-$task-plain-6-layers-seed0/task/model
  learn=(--set task.teacher="$teacher" --set task.distill_logits=0.7 --set model.start="$warm/warmup/model")
  $datamux train "small/$task-plain" -o "$runs/zoo-$name-plain" "${learn[@]}" --set task.steps="$plain_steps"
  $datamux train "small/$task-n20" -o "$runs/zoo-$name" "${learn[@]}" --set task.steps="$steps"
  for model in $name $name-plain; do
    [ -f "$records/$model.json" ] || $datamux evaluate "$runs/zoo-$model/task/model" --task "$task" $splits --record "$records/$model.json"
  done
  [ -f "$records/speed-$name.json" ] || $datamux frontier "$task" --name plain -m "$runs/zoo-$name-plain/task/model" \
    --name mixed -m "$runs/zoo-$name/task/model" $splits --groupings 1 --record "$records/speed-$name.json"
  for model in $name $name-plain; do
    $python experiments/zoo.py "$model" "$runs/zoo-$model/task/model"
  done
done
