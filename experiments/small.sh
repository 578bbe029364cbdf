#!/usr/bin/env bash
# The small experiments, as they were run: plain and multiplexed model of one task and seed, and their records.
#   DATAMUX_DATA=... experiments/small.sh TASK [SEED]        TASK: warmup sst2 conll2003 qqp qnli mnli
#   CAPACITY=40 ...           how many instances a pass: 20, or (warmup, sst2) 40
#   BYPASS=true ...           the multiplexed models with a bypass (runs and records are called so)
#   MASKED=true ...           the multiplexed models from a warm-up with a seventh of the words hidden (`-masked-words`)
#   WIDE=true ...             the multiplexed models with half the layers and twice the width (`-2l-512h`)
#   CONTEXTUAL=true ...       the multiplexed models with a layer for each instance before mixing, from new weights (`-contextual`)
#   COLD=true ...             the multiplexed models without a warm-up, from new weights (`-cold`)
#   STEPS=5000 ...            the multiplexed models for so many steps of the task (`-5000-steps`); the record scratch-n20 of
#                             conll2003 has 1600, as its recipe had at that commit, and -3000-steps what it has now
#   SMALLER="1x256 1x64" ...  also plain models of so many layers and so wide, which learn from the plain model, or from
#   TEACHER=FOLDER ...        a better one
#   RATES="1.5e-3" ...        also the plain model at other learning rates than its recipe's
#   WARMED=1 ...              also the plain model after a retrieval warm-up of its own (the paper's B2)
#   DEDICATED="5 20" ...      also models for one group size alone: is the elastic one as good there?
#   TOKENIZER=FOLDER ...      the tokenizer of an earlier run, so that both can share their plain models
# Everything lands in runs/ (change with RUNS) and goes on where it stopped; records go to experiments/results/TASK.
set -eu
cd "$(dirname "$0")/.."
task=$1 seed=${2:-0} n=${CAPACITY:-20} runs=${RUNS:-runs} records=experiments/results
datamux=${DATAMUX:-.venv/bin/datamux}
bypass=${BYPASS:-false} masked=${MASKED:-false} wide=${WIDE:-false} contextual=${CONTEXTUAL:-false} cold=${COLD:-false} past= shape=() longer=()
[ "$bypass" != true ] || past=-bypass
[ "$masked" != true ] || past=$past-masked-words
[ "$contextual" != true ] || past=$past-contextual
[ "$cold" != true ] || past=$past-cold
[ "$wide$masked" != truetrue ] && [ "$contextual$masked" != truetrue ] && [ "$contextual$wide" != truetrue ] && [ "$cold$masked" != truetrue ] && [ "$wide" != true -o -z "${DEDICATED:-}" ] || { echo "of WIDE, MASKED and CONTEXTUAL one at most, COLD not with MASKED, and WIDE not with DEDICATED" >&2; exit 2; }
[ "$wide" != true ] || { past=$past-2l-512h shape=(--set model.layers=2 --set model.hidden=512 --set model.heads=8); }
[ -z "${STEPS:-}" ] || { past=$past-$STEPS-steps longer=(--set task.steps="$STEPS"); }
warm=$runs/warmup-n$n-seed0 start=$runs/warmup-n$n-seed0
judge() { # MODEL TASK NAME OPTIONS...: evaluate, unless there is a record already; one older than the model is another's
  model=$1 record=$records/$2/$3.json; set -- "$2" "${@:4}"
  [ "$record" -nt "$model/training.json" ] || $datamux evaluate "$model" --task "$@" --record "$record"
}

[ -n "${TOKENIZER:-}" -a "$masked$contextual$cold" != falsefalsefalse ] || # none of them starts from this warm-up, whose tokenizer alone they want
  [ -f "$warm/warmup/model/training.json" ] || $datamux train "small/warmup-n$n" -o "$warm" ${TOKENIZER:+--set model.tokenizer="$TOKENIZER"}
if [ "$wide$cold" = truefalse ]; then # then as many steps again, from half of the slots on
  first=$runs/warmup-n$n-2x512-seed0 start=$runs/warmup-n$n-2x512-more-seed0
  [ -f "$first/warmup/model/training.json" ] || $datamux train "small/warmup-n$n" -o "$first" "${shape[@]}" \
    --set model.tokenizer="${TOKENIZER:-$warm/tokenizer}" --set warmup.steps=3000 --set warmup.max_words=13000000
  judge "$first/warmup/model" wikipedia_en "scratch-n$n-2l-512h-seed0"
  [ -f "$start/warmup/model/training.json" ] || $datamux train "small/warmup-n$n" -o "$start" "${shape[@]}" \
    --set model.start="$first/warmup/model" --set warmup.steps=3000 --set warmup.start_size=$((n / 2)) --set warmup.learning_rate=7e-4
  judge "$start/warmup/model" wikipedia_en "scratch-n$n-2l-512h-more-seed0"
fi
if [ "$task" = warmup ]; then
  judge "$warm/warmup/model" wikipedia_en "scratch-n$n-seed0"
  exit
fi
case $task in
  sst2) splits="--split validation --split test" ;;
  conll2003) splits="--split test" ;;
  *) splits="--split validation" ;;
esac
tokenizer=${TOKENIZER:-$warm/tokenizer}
if [ "$masked" = true ]; then # attention has to be used
  start=$runs/warmup-n$n-masked-seed0
  [ -f "$start/warmup/model/training.json" ] || # ablation.sh may have made it
    $datamux train "small/warmup-n$n" -o "$start" --set model.tokenizer="$tokenizer" --set warmup.mask_rate=0.15
fi
plain=$runs/$task-plain-seed$seed mux=$runs/$task-n$n$past-seed$seed
$datamux train "small/$task-plain" -o "$plain" --set run.seed="$seed" --set model.tokenizer="$tokenizer"
judge "$plain/task/model" "$task" "scratch-plain-seed$seed" $splits
from=(--set model.start="$start/warmup/model")
[ "$contextual$cold" = falsefalse ] || from=(--set model.needs_start=false --set model.tokenizer="$tokenizer")
[ "$contextual" != true ] || from+=(--set model.multiplexer=contextual)
$datamux train "small/$task-n$n" -o "$mux" --set run.seed="$seed" "${from[@]}" \
  --set task.teacher="$plain/task/model" --set task.distill_logits=0.5 --set model.bypass="$bypass" "${shape[@]}" "${longer[@]}"
judge "$mux/task/model" "$task" "scratch-n$n$past-seed$seed" $splits
for size in ${SMALLER:-}; do
  layers=${size%x*} hidden=${size#*x} small=$runs/$task-plain-$size${TEACHER:+-taught}-seed$seed
  $datamux train "small/$task-plain" -o "$small" --set run.seed="$seed" --set model.tokenizer="$tokenizer" \
    --set model.layers="$layers" --set model.hidden="$hidden" --set model.heads="$(((hidden + 63) / 64))" \
    --set task.teacher="${TEACHER:-$plain/task/model}" --set task.distill_logits=0.7
  judge "$small/task/model" "$task" "scratch-plain-${layers}l-${hidden}h${TEACHER:+-taught}-seed$seed" $splits
done
for rate in ${RATES:-}; do
  other=$runs/$task-plain-lr-$rate-seed$seed
  $datamux train "small/$task-plain" -o "$other" --set run.seed="$seed" --set model.tokenizer="$tokenizer" --set task.learning_rate="$rate"
  judge "$other/task/model" "$task" "scratch-plain-lr-$rate-seed$seed" $splits
done
if [ -n "${WARMED:-}" ]; then
  $datamux train small/warmup-plain -o "$runs/warmup-plain-seed0" --set model.tokenizer="$tokenizer"
  warmed=$runs/$task-plain-warmed-up-seed$seed
  $datamux train "small/$task-plain" -o "$warmed" --set run.seed="$seed" --set model.start="$runs/warmup-plain-seed0/warmup/model"
  judge "$warmed/task/model" "$task" "scratch-plain-warmed-up-seed$seed" $splits
fi
for k in ${DEDICATED:-}; do
  own=$warm alone=$runs/$task-n$k$past-alone-seed$seed
  if [ "$k" != "$n" ]; then # fewer instances are learned sooner
    own=$runs/warmup-n$k-seed0
    $datamux train "small/warmup-n$n" -o "$own" --set model.tokenizer="$tokenizer" --set model.num_instances="$k" --set warmup.steps=1200
  fi
  $datamux train "small/$task-n$n" -o "$alone" --set run.seed="$seed" --set model.num_instances="$k" --set model.bypass="$bypass" \
    --set model.start="$own/warmup/model" --set task.teacher="$plain/task/model" --set task.distill_logits=0.5 --set task.elastic=0.0
  judge "$alone/task/model" "$task" "scratch-n$k$past-alone-seed$seed" $splits -k "$k"
done
