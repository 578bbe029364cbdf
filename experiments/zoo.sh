#!/usr/bin/env bash
# The models that ship in the package, packed into src/datamux/zoo: four layers, plain and multiplexed, of taught.sh.
#   DATAMUX_DATA=... experiments/zoo.sh ENCODER       ENCODER: as for taught.sh, which trains and measures what is not there yet
set -eu
cd "$(dirname "$0")/.."
runs=${RUNS:-runs} python=${PYTHON:-.venv/bin/python}
for entry in sentiment:sst2 ner:conll2003; do
  name=${entry%:*} of=$runs/taught-${entry#*:}
  experiments/taught.sh "$1" "${entry#*:}"
  $python experiments/zoo.py "$name" "$of-n20/task/model"
  $python experiments/zoo.py "$name-plain" "$of-plain/task/model"
done
