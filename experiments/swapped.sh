#!/usr/bin/env bash
# Do models with a bypass read the mixture at all? Each row gets its neighbour's part of it; those without are beside them.
#   DATAMUX_DATA=... experiments/swapped.sh       after small.sh and pretrained.sh, each also with BYPASS=true
# Records go to experiments/results/swapped, called as those of the same model in experiments/results/TASK, after the task.
set -eu
cd "$(dirname "$0")/.."
runs=${RUNS:-runs} records=experiments/results/swapped
datamux=${DATAMUX:-.venv/bin/datamux}
swap() { # TASK RECORD FOLDER K OPTIONS...
  task=$1 record=$records/$1-$2-seed0.json folder=$runs/$3-seed0/task/model k=$4; shift 4
  [ -f "$record" ] || $datamux evaluate "$folder" --task "$task" --swapped -k "$k" --groupings 1 --record "$record" "$@"
}
for past in "" -bypass; do
  swap sst2 "minilm-n10-mux-layer-2$past" "minilm-sst2-n10-mux-layer-2$past" 10 --split validation --split test
  swap banking77 "minilm-n10-mux-layer-2$past" "minilm-banking77-n10-mux-layer-2$past" 10 --split test
  swap sst2 "scratch-n20$past" "sst2-n20$past" 20 --split validation --split test
  swap conll2003 "scratch-n20$past" "conll2003-n20$past" 20 --split test
done
