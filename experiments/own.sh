#!/usr/bin/env bash
# Files of one's own, as the quickstart does it: one command, no recipe. Tried on banking77 (77 labels) and WNUT-17 (tags).
#   DATAMUX_DATA=... experiments/own.sh [banking77|wnut17]...
# Everything lands in runs/ (change with RUNS) and goes on where it stopped; records go to experiments/results/own.
set -eu
cd "$(dirname "$0")/.."
runs=${RUNS:-runs} records=experiments/results/own
datamux=${DATAMUX:-.venv/bin/datamux}
mkdir -p "$runs/own"
[ $# -gt 0 ] || set -- banking77 wnut17
for name in "$@"; do
  case $name in
    banking77) columns="--text text --label label" ;;
    wnut17) columns="--text tokens --label ner_tags" ;;
    *) echo "banking77 or wnut17, not $name" >&2; exit 2 ;;
  esac
  for split in train test; do cp -p "$DATAMUX_DATA/$name/$split.jsonl" "$runs/own/$name-$split.jsonl"; done
  for kind in n10 plain; do
    model=$runs/own-$name-$kind plain=$([ "$kind" = plain ] && echo true || echo false)
    $datamux train --train "$runs/own/$name-train.jsonl" $columns --num-instances 10 -o "$model" --set run.plain="$plain"
    [ -f "$records/$name-$kind-seed0.json" ] || $datamux evaluate "$model/task/model" --task "$runs/own/$name-test.jsonl" $columns \
      --record "$records/$name-$kind-seed0.json"
  done
  $datamux predict "$runs/own-$name-n10/task/model" "$runs/own/$name-test.jsonl" -o "$runs/own/$name-answers.jsonl" \
    --text "$(set -- $columns; echo "$2")"
done
