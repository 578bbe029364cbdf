#!/usr/bin/env bash
# The models that ship in the package, packed into src/datamux/zoo: four layers, plain and multiplexed, of taught.sh.
#   DATAMUX_DATA=... experiments/zoo.sh ENCODER       ENCODER: as for taught.sh, which trains and measures what is not there yet
set -eu
cd "$(dirname "$0")/.."
runs=${RUNS:-runs} python=${PYTHON:-.venv/bin/python} datamux=${DATAMUX:-.venv/bin/datamux}
for entry in sentiment:sst2 ner:conll2003; do
  name=${entry%:*} of=$runs/taught-${entry#*:}
  experiments/taught.sh "$1" "${entry#*:}"
  [ "$name" = sentiment ] && splits="--split validation --split test" || splits="--split test"
  for kind in n20: plain:-plain; do # what is packed is scored as it runs
    packed=$name${kind#*:}
    $python experiments/zoo.py "$packed" "$of-${kind%:*}/task/model"
    $datamux evaluate "src/datamux/zoo/$packed" --task "${entry#*:}" $splits --record "experiments/results/zoo/$packed.json"
  done
done
$python experiments/cards.py
