#!/usr/bin/env bash
# A pretrained encoder, as it was run: plain fine-tuning; multiplexed, from the words and from a higher layer; and the rivals,
# the same encoder with its upper layers cut off. All but the first learn from the plain model.
#   DATAMUX_DATA=... experiments/pretrained.sh ENCODER TASK [SEED]     ENCODER: folder or name; TASK: sst2 banking77 qqp conll2003
#   MUX_LAYERS="1 2" ...   after which layers to mix;  CUT="3 2 1" ...   how many layers the rivals keep
#   BYPASS=true ...        the mixed ones with a bypass (runs and records are called so)
#   LONGER="3 2" ...       these rivals again, from the fine-tuned encoder, over the rows as often as the mixed ones
#                          (conll2003: twice as often);
#                          LONGER_RATE=2e-4: at another learning rate than the recipe's
#   CUT_MIXED="3" ...      rivals that are mixed as well, after their first layer
# Everything lands in runs/ (change with RUNS) and goes on where it stopped; records go to experiments/results/TASK.
set -eu
cd "$(dirname "$0")/.."
encoder=$1 task=$2 seed=${3:-0} runs=${RUNS:-runs} records=experiments/results
datamux=${DATAMUX:-.venv/bin/datamux}
near=0 bypass=${BYPASS:-false}
[ "$bypass" = true ] && past=-bypass || past=
case $task in
  sst2) splits="--split validation --split test" longer=5000 ;;
  banking77) splits="--split test" longer=3600 ;;
  qqp) splits="--split validation" longer=3600 ;;
  conll2003) splits="--split test" near=2 longer=2400 ;; # heads see their neighbours in all that has less than the whole encoder
  *) echo "sst2, banking77, qqp or conll2003, not $task" >&2; exit 2 ;;
esac
run() { # NAME RECIPE SETTINGS...: train, then evaluate, unless there is a record already; one older than the model is another's
  name=$1 recipe=$2; shift 2
  settings=(); for setting in "$@"; do settings+=(--set "$setting"); done
  folder=$runs/minilm-$task-$name-seed$seed record=$records/$task/minilm-$name-seed$seed.json
  $datamux train "small/minilm-$task-$recipe" -o "$folder" --set run.seed="$seed" "${settings[@]}"
  [ "$record" -nt "$folder/task/model/training.json" ] || $datamux evaluate "$folder/task/model" --task "$task" $splits --record "$record"
}
plain=$runs/minilm-$task-plain-6-layers-seed$seed/task/model
run plain-6-layers plain model.start="$encoder"
for m in ${MUX_LAYERS-2}; do
  run "n10-mux-layer-$m$past" n10 model.start="$plain" task.teacher="$plain" model.mux_layer="$m" \
    model.head_context="$near" model.bypass="$bypass"
done
for layers in ${CUT-3 2 1}; do
  run "plain-$layers-layers" plain model.start="$encoder" model.keep_layers="$layers" task.teacher="$plain" \
    task.distill_logits=0.7 task.distill_states=1.0 model.head_context="$near"
done
for layers in ${LONGER:-}; do
  run "plain-$layers-layers-longer${LONGER_RATE:+-lr-$LONGER_RATE}" plain model.start="$plain" model.keep_layers="$layers" \
    task.teacher="$plain" task.distill_logits=0.7 task.distill_states=1.0 model.head_context="$near" task.steps="$longer" \
    ${LONGER_RATE:+task.learning_rate=$LONGER_RATE}
done
for layers in ${CUT_MIXED:-}; do
  run "n10-mux-layer-1-of-$layers$past" n10 model.start="$runs/minilm-$task-plain-$layers-layers-seed$seed/task/model" \
    task.teacher="$plain" model.mux_layer=1 model.head_context="$near" model.bypass="$bypass"
done
