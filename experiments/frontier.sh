#!/usr/bin/env bash
# Accuracy against throughput of the models that small.sh, pretrained.sh and taught.sh trained. Run nothing else meanwhile.
#   DATAMUX_DATA=... experiments/frontier.sh TASK      TASK: sst2 banking77 conll2003
#   ENGINES="bf16 int8" ...    on which engines;   ROUNDS=5 ...    of three by default
# The record goes to experiments/results/frontier; `make results` draws it.
set -eu
cd "$(dirname "$0")/.."
task=$1 seed=0 runs=${RUNS:-runs}
datamux=${DATAMUX:-.venv/bin/datamux}
case $task in
  sst2) splits="--split validation --split test" ;;
  *) splits="--split test" ;;
esac
[ -d "$runs/minilm-$task-plain-6-layers-seed$seed/task/model" ] || { echo "run experiments/pretrained.sh first: all is compared with its plain model" >&2; exit 2; }
models=()
add() { [ ! -d "$runs/$2/task/model" ] || models+=(--name "$1" -m "$runs/$2/task/model"); }
add "6 layers" "minilm-$task-plain-6-layers-seed$seed"
for layers in 3 2 1; do # those that were trained longer, if there are any
  cut=minilm-$task-plain-$layers-layers
  for more in -longer -longer-lr-2e-4; do
    [ ! -d "$runs/minilm-$task-plain-$layers-layers$more-seed$seed/task/model" ] || cut=minilm-$task-plain-$layers-layers$more
  done
  add "$layers layer$([ "$layers" = 1 ] || echo s)" "$cut-seed$seed"
done
add "6 layers, mixed after 2" "minilm-$task-n10-mux-layer-2-seed$seed"
add "3 layers, mixed after 1" "minilm-$task-n10-mux-layer-1-of-3-seed$seed"
add "small 4L/256H" "taught-$task-plain"
add "small 4L/256H, mixed" "taught-$task-n20"
add "small 1L/64H" "$task-plain-1x64-taught-seed$seed"
add "words alone" "$task-plain-0x256-seed$seed"
$datamux frontier "$task" "${models[@]}" $splits $(printf -- '--engine %s ' ${ENGINES:-bf16 int8}) --rounds "${ROUNDS:-3}" --seconds 0.5 --groupings 2 \
  --record "experiments/results/frontier/$task.json" --max-drop 2.0
