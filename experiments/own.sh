#!/usr/bin/env bash
# Files of one's own, as the quickstart does it: one command, no recipe. Tried on banking77 (77 labels) and WNUT-17 (tags),
# with the plain model beside it, and words alone: no layer at all, taught by the plain one.
#   DATAMUX_DATA=... experiments/own.sh [banking77|wnut17]...
# Everything lands in runs/ (change with RUNS) and goes on where it stopped; records go to experiments/results/own.
set -eu
cd "$(dirname "$0")/.."
runs=${RUNS:-runs} records=experiments/results/own
datamux=${DATAMUX:-.venv/bin/datamux} python=${PYTHON:-.venv/bin/python}
mkdir -p "$runs/own"
[ $# -gt 0 ] || set -- banking77 wnut17
for name in "$@"; do
  case $name in
    banking77) ending=csv columns="--text text --label label" ;;
    wnut17) ending=jsonl columns="--text tokens --label ner_tags" ;;
    *) echo "banking77 or wnut17, not $name" >&2; exit 2 ;;
  esac
  for split in train test; do
    [ -f "$runs/own/$name-$split.$ending" ] || $python - "$DATAMUX_DATA/$name/$split.jsonl" "$runs/own/$name-$split.$ending" << 'END'
import sys
from pathlib import Path
from datamux.inference.writing import write_rows
from datamux.tasks.files import read_rows
source, copy = map(Path, sys.argv[1:])
with copy.open("w", encoding="utf-8", newline="") as handle:
    write_rows(handle, copy.suffix, read_rows(source))
END
  done
  plain=$runs/own-$name-plain
  for kind in n10 plain plain-0l-256h plain-1l-256h; do
    model=$runs/own-$name-$kind recipe=small/own more=()
    [ "$kind" = n10 ] || recipe=small/own-plain
    [ "${kind%l-256h}" = "$kind" ] || more=(--set model.layers="$(expr "$kind" : 'plain-\(.\)')" --set model.tokenizer="$plain/tokenizer" \
      --set task.teacher="$plain/task/model" --set task.distill_logits=0.7)
    $datamux train $recipe --train "$runs/own/$name-train.$ending" $columns -o "$model" "${more[@]}"
    [ -f "$records/$name-$kind-seed0.json" ] || $datamux evaluate "$model/task/model" --task "$runs/own/$name-test.$ending" $columns \
      --record "$records/$name-$kind-seed0.json"
  done
  $datamux predict "$runs/own-$name-n10/task/model" "$runs/own/$name-test.$ending" -o "$runs/own/$name-answers.$ending" \
    --text "$(set -- $columns; echo "$2")"
done
