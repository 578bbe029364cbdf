#!/usr/bin/env bash
# The models that ship in the package: trained, measured, and packed into src/datamux/zoo.
#   DATAMUX_DATA=... experiments/zoo.sh ENCODER [NAME]...    ENCODER: the pretrained encoder (all-MiniLM-L6-v2) whose fine-tuned
#                                                            classifiers are the teachers;  NAME: sentiment ner, or both
#   STEP=train ...   only train;  STEP=measure ...   only measure and pack, on a machine that does nothing else meanwhile
# All start from one warm-up with a seventh of the words hidden, and learn from their teacher on the task's rows and on
# texts without labels (unlabelled.py). The rivals, words alone and one layer, have the same teacher and texts.
# Everything lands in runs/ (change with RUNS) and goes on where it stopped; records go to experiments/results/zoo.
set -eu
cd "$(dirname "$0")/.."
encoder=$1 runs=${RUNS:-runs} records=experiments/results/zoo step=${STEP:-all}; shift
datamux=${DATAMUX:-.venv/bin/datamux} python=${PYTHON:-.venv/bin/python}
[ $# -gt 0 ] || set -- sentiment ner
warm=$runs/warmup-n20-masked-seed0 # the tokenizer is the one that is in the package
[ -f "$warm/warmup/model/training.json" ] || $datamux train small/warmup-n20 -o "$warm" \
  --set model.tokenizer=src/datamux/zoo/sentiment --set warmup.mask_rate=0.15
for name in "$@"; do
  case $name in
    sentiment) task=sst2 splits="--split validation --split test" plain_steps=3000 steps=5000 rate=1e-3 ;;
    ner) task=conll2003 splits="--split test" plain_steps=3000 steps=4000 rate=1.5e-3 ;;
    *) echo "sentiment or ner, not $name" >&2; exit 2 ;;
  esac
  plain=$runs/zoo-$name-plain mixed=$runs/zoo-$name layer=$runs/zoo-$name-1-layer words=$runs/zoo-$name-words
  if [ "$step" != measure ]; then
    MUX_LAYERS="" CUT="" experiments/pretrained.sh "$encoder" "$task"
    texts=$runs/unlabelled/$task.txt
    [ -f "$texts" ] || $python experiments/unlabelled.py "$task" "$texts" --encoder "$encoder"
    learn=(--set task.teacher="$runs/minilm-$task-plain-6-layers-seed0/task/model" --set task.distill_logits=0.7 --unlabelled "$texts")
    $datamux train "small/$task-plain" -o "$plain" "${learn[@]}" --set model.start="$warm/warmup/model" --set task.steps=$plain_steps
    for rival in "1 $layer" "0 $words"; do
      set -- ${rival}
      $datamux train "small/$task-plain" -o "$2" "${learn[@]}" --set model.layers="$1" --set model.tokenizer="$warm/warmup/model" --set task.steps=$plain_steps
    done
    $datamux train "small/$task-n20" -o "$mixed" "${learn[@]}" --set model.start="$warm/warmup/model" --set task.steps=$steps \
      --set task.learning_rate=$rate --set model.dropout=0.0
  fi
  [ "$step" != train ] || continue
  for model in $name $name-plain $name-1-layer $name-words; do
    [ -f "$records/$model.json" ] || $datamux evaluate "$runs/zoo-$model/task/model" --task "$task" $splits --record "$records/$model.json"
  done
  [ -f "$records/speed-$name.json" ] || $datamux frontier "$task" $splits --groupings 1 --rounds 5 --record "$records/speed-$name.json" \
    --name plain -m "$plain/task/model" --name mixed -m "$mixed/task/model" --name "1 layer" -m "$layer/task/model" --name "words alone" -m "$words/task/model"
  for model in $name $name-plain; do
    $python experiments/zoo.py "$model" "$runs/zoo-$model/task/model"
  done
done
