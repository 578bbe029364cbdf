#!/usr/bin/env bash
# Throughput and memory as they were measured; records go to experiments/results/speed. Run nothing else meanwhile.
#   DATAMUX_DATA=... experiments/speed.sh [MODEL]      MODEL: a trained small SST-2 model, for the run from texts to answers
set -eu
cd "$(dirname "$0")/.."
records=experiments/results/speed
datamux=${DATAMUX:-.venv/bin/datamux}
speed() { # NAME OPTIONS...
  name=$1; shift
  [ -f "$records/$name.json" ] || $datamux bench speed --record "$records/$name.json" --plot "docs/speed-$name.png" "$@"
}
speed 4l-256h-32-tokens --layers 4 --hidden 256 --heads 4 --lengths fixed:32 --also 2x128 --also 1x64
speed 12l-768h-128-tokens --layers 12 --hidden 768 --heads 12 --lengths fixed:128 --engine bf16
speed 12l-384h-128-tokens --layers 12 --hidden 384 --heads 12 --lengths fixed:128 --engine bf16 --demultiplexer gate
speed 4l-768h-128-tokens --layers 4 --hidden 768 --heads 12 --lengths fixed:128 --engine bf16 --demultiplexer gate
speed tagging-12l-768h-128-tokens --layers 12 --hidden 768 --heads 12 --lengths fixed:128 --engine bf16 --demultiplexer gate \
  --tagging -k 20
speed tagging-as-trained-12l-768h-128-tokens --layers 12 --hidden 768 --heads 12 --lengths fixed:128 --engine bf16 --demultiplexer gate \
  --tagging --head-context 2 -k 20
speed engines-4l-256h-32-tokens --layers 4 --hidden 256 --heads 4 --lengths fixed:32 --demultiplexer gate -k 10 -k 20 \
  --engine torch --engine bf16 --engine compiled --engine onnx --engine int8 --engine openvino
[ -z "${1:-}" ] || speed sst2-texts-4l-256h --model "$1" --texts --lengths sst2
[ -f "$records/memory-12l-768h.json" ] || $datamux bench memory --record "$records/memory-12l-768h.json"
[ -f "$records/parts-4l-256h-32-tokens.json" ] || $datamux bench parts --record "$records/parts-4l-256h-32-tokens.json"
[ -f "$records/parts-12l-768h-128-tokens.json" ] || $datamux bench parts --layers 12 --hidden 768 --heads 12 --tokens 128 --groups 8 \
  --bf16 --record "$records/parts-12l-768h-128-tokens.json"
