#!/usr/bin/env bash
# The paper's MNIST figures with three seeds, then ours. Finished runs are kept: stop and start it as you like.
# JOBS runs at once, each one thread. What is quick comes first. Runs are committed in OUT/runs, so that the work can be
# shared by days and machines of the same torch; only whole records of MNIST get into the package.
set -eu
cd "$(dirname "$0")/.."
JOBS=${JOBS:-1}
OUT=${OUT:-experiments/results/mnist}
# Memory that was freed is kept for the next step, not given back and asked for again: a third of the time of some series.
export MALLOC_TRIM_THRESHOLD_=4000000000 MALLOC_MMAP_THRESHOLD_=4000000000
FIGURES="mnist-pca mnist-speed mnist-picture mnist-mlp mnist-beaten mnist-cnn mnist-cnn-kernels"

for figure in $FIGURES; do
  case $figure in
    mnist-pca | mnist-speed | mnist-picture) .venv/bin/datamux reproduce "$figure" --out "$OUT" ;;
    *) .venv/bin/datamux reproduce "$figure" --out "$OUT" --jobs "$JOBS" ;;
  esac
  .venv/bin/python experiments/keep_record.py "$OUT/$figure.json"
done
.venv/bin/python experiments/report.py
