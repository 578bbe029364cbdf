#!/usr/bin/env bash
# The paper's MNIST figures with three seeds, then ours. Finished runs are kept: stop and start it as you like.
# JOBS runs at once, each one thread. What is quick comes first.
set -eu
cd "$(dirname "$0")/.."
JOBS=${JOBS:-1}
OUT=${OUT:-runs/reproduce}
reproduce() { .venv/bin/datamux reproduce "$1" --out "$OUT" --jobs "$JOBS" --plot "docs/$1.png" "${@:2}"; }

for figure in mnist-pca mnist-speed mnist-picture mnist-mlp mnist-beaten mnist-cnn mnist-cnn-kernels; do
  reproduce "$figure" "$@"
  cp "$OUT/$figure.json" src/datamux/reproduce/results/
done
.venv/bin/python experiments/report.py
