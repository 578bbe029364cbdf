#!/usr/bin/env bash
# Small models from scratch with one teacher and one set of texts: four layers, plain and multiplexed, and smaller plain rivals.
#   DATAMUX_DATA=... experiments/taught.sh ENCODER TASK    ENCODER: the pretrained encoder (all-MiniLM-L6-v2) whose fine-tuned
#                                                          classifier is the teacher;  TASK: sst2 conll2003 qqp
#   STEP=train ...    only train;  STEP=measure ...   only measure, on a machine that does nothing else meanwhile
#   RIVALS="1x64 0x256" ...     layers and width of the rivals
#   MIXED_STEPS=3000 ...        the multiplexed tagger for so many steps (called so)
# All learn on the task's rows and on texts that the teacher labels (unlabelled.py), but for the multiplexed tagger, which is better
# without (UNLABELLED=true: with them, called so). Four layers start from a warm-up with a seventh of the words hidden. Everything lands in runs/ (change with RUNS) and goes on where it stopped; records go to
# experiments/results/TASK (quality) and experiments/results/taught (accuracy against throughput).
set -eu
cd "$(dirname "$0")/.."
encoder=$1 task=$2 runs=${RUNS:-runs} records=experiments/results step=${STEP:-all} rivals=${RIVALS-1x256 1x64 0x256}
datamux=${DATAMUX:-.venv/bin/datamux} python=${PYTHON:-.venv/bin/python}
kind=txt rate=1e-3 steps=3000 mixed=3000 more=true past=
case $task in
  sst2) splits="--split validation --split test" ;;
  conll2003) # with unlabelled texts, or half as many steps, the mixed one is worse
    splits="--split test" rate=1.5e-3 mixed=${MIXED_STEPS:-6000} more=${UNLABELLED:-false}
    [ "$more" = false ] || past=-unlabelled
    [ "$mixed" = 6000 ] || past=$past-$mixed-steps
    ;;
  qqp) splits="--split validation" kind=jsonl steps=2000 mixed=2000 ;;
  *) echo "sst2, conll2003 or qqp, not $task" >&2; exit 2 ;;
esac
warm=$runs/warmup-n20-masked-seed0/warmup/model of=$runs/taught-$task
if [ "$step" != measure ]; then
  # the tokenizer is that of the models in the package
  [ -f "$warm/training.json" ] || $datamux train small/warmup-n20 -o "$runs/warmup-n20-masked-seed0" \
    --set model.tokenizer=src/datamux/zoo/sentiment --set warmup.mask_rate=0.15
  MUX_LAYERS="" CUT="" experiments/pretrained.sh "$encoder" "$task"
  texts=$runs/unlabelled/$task.$kind
  [ -f "$texts" ] || $python experiments/unlabelled.py "$task" "$texts" --encoder "$encoder"
  learn=(--set task.teacher="$runs/minilm-$task-plain-6-layers-seed0/task/model" --set task.distill_logits=0.7)
  $datamux train "small/$task-plain" -o "$of-plain" "${learn[@]}" --set task.steps=$steps --unlabelled "$texts" --set model.start="$warm"
  for rival in $rivals; do
    $datamux train "small/$task-plain" -o "$of-plain-$rival" "${learn[@]}" --set task.steps=$steps --unlabelled "$texts" --set model.tokenizer="$warm" \
      --set model.layers="${rival%x*}" --set model.hidden="${rival#*x}" --set model.heads="$(((${rival#*x} + 63) / 64))"
  done
  $datamux train "small/$task-n20" -o "$of-n20$past" "${learn[@]}" --set model.start="$warm" --set task.learning_rate=$rate \
    --set task.steps=$mixed --set model.dropout=0.0 $([ "$more" = false ] || echo --unlabelled "$texts")
fi
[ "$step" != train ] || exit 0
judge() { # RUN NAME: a record that is older than the model is another model's
  [ "$records/$task/taught-$2-seed0.json" -nt "$1/task/model/training.json" ] ||
    $datamux evaluate "$1/task/model" --task "$task" $splits --record "$records/$task/taught-$2-seed0.json"
}
judge "$of-plain" plain
judge "$of-n20$past" "n20$past"
side=(--name "4 layers" -m "$of-plain/task/model" --name "4 layers, mixed" -m "$of-n20$past/task/model")
for rival in $rivals; do
  judge "$of-plain-$rival" "plain-${rival%x*}l-${rival#*x}h"
  side+=(--name "$([ "${rival%x*}" = 0 ] && echo words alone || echo "1 layer of ${rival#*x}")" -m "$of-plain-$rival/task/model")
done
[ -n "$past" ] || [ "$records/taught/$task.json" -nt "$of-n20$past/task/model/training.json" ] ||
  $datamux frontier "$task" $splits "${side[@]}" --groupings 1 --rounds 5 --seconds 1.5 --max-drop 2.0 --record "$records/taught/$task.json"
