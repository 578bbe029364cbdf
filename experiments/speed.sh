#!/usr/bin/env bash
# Throughput and memory as they were measured; records go to experiments/results/speed. Run nothing else meanwhile; `make results` draws it.
#   DATAMUX_DATA=... experiments/speed.sh [MODEL]      MODEL: a trained SST-2 model of capacity 40, from texts to answers
set -eu
cd "$(dirname "$0")/.."
records=experiments/results/speed
datamux=${DATAMUX:-.venv/bin/datamux}
bench() { # COMMAND NAME OPTIONS...
  command=$1 name=$2; shift 2
  [ -f "$records/$name.json" ] || $datamux bench "$command" --record "$records/$name.json" "$@"
}
small="--layers 4 --hidden 256 --heads 4"
base="--layers 12 --hidden 768 --heads 12"
ours="--demultiplexer gate"
bench speed 4l-256h-32-tokens $small --lengths fixed:32 --also 2x128 --also 1x64
bench speed 4l-256h-32-tokens-as-trained $small --lengths fixed:32 $ours --hidden-dim 1024
bench speed 4l-256h-sst2-lengths $small --lengths sst2 $ours
bench speed 4l-256h-mnli-lengths $small --lengths mnli $ours
bench speed 12l-768h-128-tokens $base --lengths fixed:128 --engine bf16
bench speed 12l-384h-128-tokens --layers 12 --hidden 384 --heads 12 --lengths fixed:128 --engine bf16 $ours
bench speed 4l-768h-128-tokens --layers 4 --hidden 768 --heads 12 --lengths fixed:128 --engine bf16 $ours
bench speed tagging-12l-768h-128-tokens $base --lengths fixed:128 --engine bf16 $ours --tagging -k 20
bench speed tagging-as-trained-12l-768h-128-tokens $base --lengths fixed:128 --engine bf16 $ours --tagging --head-context 2 -k 20
bench speed engines-4l-256h-32-tokens $small --lengths fixed:32 $ours -k 10 -k 20 \
  --engine torch --engine bf16 --engine compiled --engine onnx --engine int8 --engine openvino
bench speed sst2-texts-new-4l-256h $small --texts --lengths sst2 $ours
bench speed sst2-texts-sentiment --model sentiment --texts --lengths sst2
[ -z "${1:-}" ] || bench speed sst2-texts-4l-256h --model "$1" --texts --lengths sst2
bench memory memory-12l-768h
bench memory memory-12l-768h-index --demultiplexer index
bench parts parts-4l-256h-32-tokens
bench parts parts-4l-256h-32-tokens-as-trained --hidden-dim 1024
bench parts parts-4l-768h-128-tokens --layers 4 --hidden 768 --heads 12 --tokens 128 --groups 8 --bf16
bench parts parts-12l-768h-128-tokens $base --tokens 128 --groups 8 --bf16
bench parts parts-tagging-12l-768h-128-tokens $base --tokens 128 --groups 8 --bf16 --tagging -k 20
bench parts parts-sst2-texts-sentiment --model sentiment --texts --lengths sst2
[ -z "${1:-}" ] || bench parts parts-sst2-texts-4l-256h --model "$1" --texts --lengths sst2
