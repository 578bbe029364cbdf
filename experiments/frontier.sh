#!/usr/bin/env bash
# Accuracy against throughput on SST-2, of the models that small.sh and pretrained.sh trained. Run nothing else meanwhile.
#   DATAMUX_DATA=... experiments/frontier.sh [SEED]      the record goes to experiments/results/frontier
set -eu
cd "$(dirname "$0")/.."
seed=${1:-0} runs=${RUNS:-runs}
datamux=${DATAMUX:-.venv/bin/datamux}
models=()
add() { [ ! -d "$runs/$2/task/model" ] || models+=(--name "$1" -m "$runs/$2/task/model"); }
add "6 layers" "minilm-sst2-plain-6-layers-seed$seed"
add "3 layers" "minilm-sst2-plain-3-layers-seed$seed"
add "2 layers" "minilm-sst2-plain-2-layers-seed$seed"
add "1 layer" "minilm-sst2-plain-1-layers-seed$seed"
add "6 layers, mixed after 2" "minilm-sst2-n10-mux-layer-2-seed$seed"
add "6 layers, mixed after 1" "minilm-sst2-n10-mux-layer-1-seed$seed"
add "3 layers, mixed after 1" "minilm-sst2-n10-mux-layer-1-of-3-seed$seed"
add "scratch 4L/256H" "sst2-plain-seed$seed"
add "scratch 1L/256H" "sst2-plain-1x256-seed$seed"
add "scratch 1L/64H" "sst2-plain-1x64-seed$seed"
add "scratch 4L/256H, mixed" "sst2-n20-seed$seed"
$datamux frontier sst2 "${models[@]}" --split validation --split test --engine bf16 --rounds 3 --seconds 0.7 \
  --record experiments/results/frontier/sst2.json --plot docs/frontier-sst2.png --max-drop 2.0
