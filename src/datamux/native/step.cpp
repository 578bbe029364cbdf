// One step of the paper's protocol for the paper's CNN: from the mixtures and the labels to the changed weights.
//
//   two convolutions, each pooled and tanh (layer.cpp) -> 144 -> 120 tanh -> hidden tanh
//   -> out a slot, tanh -> the readout that all slots share, tanh -> classes
//   loss   sum over slots of mean over groups and classes of 1/2 (y - target)^2
//   SGD    w -= rate * gradient
//
// Activations are [blocks of 8 groups][units][8]; what is called `step` is how many vectors lie between two blocks.
// Sizes are checked by the caller.

#include "layer.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

typedef float Loose __attribute__((vector_size(32), aligned(4), may_alias));

struct Network {
    int blocks, maps, slots, hidden, out, classes;
    float rate;
};

// Contiguous, as torch keeps them: of convolutions (o c k k), of linear layers (o i), of slots (slot i o).
struct Weights {
    float *first, *first_bias, *second, *second_bias, *third, *third_bias, *fourth, *fourth_bias;
    float *slots, *slots_bias, *readout, *readout_bias;
};

const int SIDE = 20, FIRST = 10, SECOND = 16, THIRD = 120;
const int POOLED = (SIDE - 2) / 2, AFTER = (POOLED - 3) / 2, FLAT = SECOND * AFTER * AFTER;

// out[o] = (bias[o] or what is there) + sum over i of w[o at + i by] in[i], for OB outputs of XB blocks.
template <int OB, int XB>
static inline void dense_tile(const V* in, int in_step, int count, const float* w, int at, int by, const float* bias,
                              V* out, int out_step) {
    V sum[OB][XB];
#pragma GCC unroll 16
    for (int o = 0; o < OB; o++)
#pragma GCC unroll 16
        for (int x = 0; x < XB; x++) sum[o][x] = bias ? all(bias[o]) : out[x * out_step + o];
    for (int i = 0; i < count; i++) {
        V each[XB];
#pragma GCC unroll 16
        for (int x = 0; x < XB; x++) each[x] = in[x * in_step + i];
#pragma GCC unroll 16
        for (int o = 0; o < OB; o++) {
            V weight = all(w[o * at + i * by]);
#pragma GCC unroll 16
            for (int x = 0; x < XB; x++) sum[o][x] += weight * each[x];
        }
    }
#pragma GCC unroll 16
    for (int o = 0; o < OB; o++)
#pragma GCC unroll 16
        for (int x = 0; x < XB; x++) out[x * out_step + o] = sum[o][x];
}

static void dense(const V* in, int in_step, int inputs, const float* w, int at, int by, const float* bias, V* out,
                  int out_step, int outputs, int blocks) {
    const auto blocks_by = [&](auto wide, int x) {
        constexpr int XB = decltype(wide)::value;
        int o = 0;
        const auto some = [&](auto count) {
            constexpr int OB = decltype(count)::value;
            for (; o + OB <= outputs; o += OB)
                dense_tile<OB, XB>(in + x * in_step, in_step, inputs, w + o * at, at, by, bias ? bias + o : nullptr,
                                   out + x * out_step + o, out_step);
        };
        some(Count<3>());
        some(Count<1>());
    };
    int x = 0;
    for (; x + 4 <= blocks; x += 4) blocks_by(Count<4>(), x);
    for (; x < blocks; x++) blocks_by(Count<1>(), x);
}

static void squash(V* values, int count) {
    for (int i = 0; i < count; i++) values[i] = tanh_of(values[i]);
}

// From the gradient of tanh's values to that of what it was taken of.
static void unsquash(V* grad, const V* values, int count) {
    for (int i = 0; i < count; i++) grad[i] *= 1.0f - values[i] * values[i];
}

// w[r][c] -= rate * sum over groups of left[r] right[c], for RB rows by CB vectors of columns.
template <int RB, int CB>
static inline void descend_tile(const V* left, int left_step, const float* right, int row, int blocks, float rate,
                                float* w, int width, int count) {
    V sum[RB][CB] = {};
    for (int b = 0; b < blocks; b++) {
        const float* of_rows = (const float*)(left + b * left_step);
#pragma GCC unroll 2
        for (int lane = 0; lane < 8; lane++, right += row) {
            V column[CB];
#pragma GCC unroll 16
            for (int c = 0; c < CB; c++) column[c] = *(const Loose*)(right + c * 8);
#pragma GCC unroll 16
            for (int r = 0; r < RB; r++) {
                V each = all(of_rows[r * 8 + lane]);
#pragma GCC unroll 16
                for (int c = 0; c < CB; c++) sum[r][c] += each * column[c];
            }
        }
    }
    for (int r = 0; r < RB; r++)
        for (int c = 0; c < CB; c++) {
            float* to = w + r * width + c * 8;
            if (count >= (c + 1) * 8) *(Loose*)to -= rate * sum[r][c];
            else
                for (int i = 0; i < count - c * 8; i++) to[i] -= rate * sum[r][c][i];
        }
}

static void descend(const V* left, int left_step, int rows, const float* right, int row, int width, int blocks,
                    float rate, float* w) {
    const auto columns_by = [&](auto wide, int c) {
        constexpr int CB = decltype(wide)::value;
        int r = 0;
        const auto some = [&](auto count) {
            constexpr int RB = decltype(count)::value;
            for (; r + RB <= rows; r += RB)
                descend_tile<RB, CB>(left + r, left_step, right + c, row, blocks, rate, w + r * width + c, width,
                                     width - c);
        };
        some(Count<4>());
        some(Count<1>());
    };
    int c = 0;
    for (; c + 16 < width; c += 24) columns_by(Count<3>(), c);
    for (; c < width; c += 8) columns_by(Count<1>(), c);
}

static void descend_bias(const V* grad, int step, int units, int blocks, float rate, float* bias) {
    for (int i = 0; i < units; i++) {
        V sum = {};
        for (int b = 0; b < blocks; b++) sum += grad[b * step + i];
        bias[i] -= rate * total(sum);
    }
}

static void descend_by(const float* grad, int count, float rate, float* w) {
    for (int i = 0; i < count; i++) w[i] -= rate * grad[i];
}

// (o c k k) -> (c o k k), kernels mirrored.
static void turn(const float* w, int outputs, int inputs, int area, float* turned) {
    for (int o = 0; o < outputs; o++)
        for (int c = 0; c < inputs; c++)
            for (int k = 0; k < area; k++) turned[(c * outputs + o) * area + area - 1 - k] = w[(o * inputs + c) * area + k];
}

// What one step needs, taken from one piece of memory.
class Space {
    std::vector<V>& memory;
    size_t used = 0;

  public:
    Space(std::vector<V>& memory, size_t size) : memory(memory) { room(memory, size); }
    V* vectors(size_t count) {
        V* here = memory.data() + used;
        used += count;
        return here;
    }
    float* floats(size_t count) { return (float*)vectors((count + 7) / 8); }
};

static thread_local std::vector<V> step_memory;

// `mixture` and `grad_mixture` (null: not wanted) are (8 blocks, maps 400), `labels` (8 blocks, slots).
extern "C" void digits_step(const Network* network, const Weights* weights, const float* mixture, const std::int64_t* labels,
                            float* grad_mixture) {
    const Network& n = *network;
    const Weights& w = *weights;
    const int blocks = n.blocks, groups = 8 * blocks, pixels = n.maps * SIDE * SIDE;
    const int wide = n.slots * n.out, answers = n.slots * n.classes;
    const int row = (std::max({wide, THIRD, FLAT}) + 31) / 8 * 8;  // a row of numbers by group, and room to read over
    const int pooled = FIRST * POOLED * POOLED;
    const Shape first = {blocks, n.maps, SIDE, SIDE, FIRST, 3, 0, 1, 1, 1};
    const Shape second = {blocks, FIRST, POOLED, POOLED, SECOND, 4, 0, 1, 1, 1};
    const int first_size = FIRST * n.maps * 9, second_size = SECOND * FIRST * 16;
    const size_t a_block = 2 * pixels + 3 * pooled + 3 * FLAT + 2 * (THIRD + n.hidden + wide + answers);
    Space space(step_memory, blocks * a_block + groups * row / 8 + (2 * (first_size + second_size) + 128) / 8);
    V* in = space.vectors(blocks * pixels);
    V* maps = space.vectors(blocks * pooled);
    int* maps_at = (int*)space.vectors(blocks * pooled);
    V* flat = space.vectors(blocks * FLAT);
    int* flat_at = (int*)space.vectors(blocks * FLAT);
    V* third = space.vectors(blocks * THIRD);
    V* hidden = space.vectors(blocks * n.hidden);
    V* slots = space.vectors(blocks * wide);
    V* out = space.vectors(blocks * answers);

    by_block(mixture, pixels, blocks, in);
    layer_forward(&first, (float*)in, w.first, w.first_bias, (float*)maps, maps_at);
    layer_forward(&second, (float*)maps, w.second, w.second_bias, (float*)flat, flat_at);
    dense(flat, FLAT, FLAT, w.third, FLAT, 1, w.third_bias, third, THIRD, THIRD, blocks);
    squash(third, blocks * THIRD);
    dense(third, THIRD, THIRD, w.fourth, THIRD, 1, w.fourth_bias, hidden, n.hidden, n.hidden, blocks);
    squash(hidden, blocks * n.hidden);
    for (int s = 0; s < n.slots; s++)
        dense(hidden, n.hidden, n.hidden, w.slots + s * n.hidden * n.out, 1, n.out, w.slots_bias + s * n.out,
              slots + s * n.out, wide, n.out, blocks);
    squash(slots, blocks * wide);
    for (int s = 0; s < n.slots; s++)
        dense(slots + s * n.out, wide, n.out, w.readout, n.out, 1, w.readout_bias, out + s * n.classes, answers,
              n.classes, blocks);
    squash(out, blocks * answers);

    V* grad_out = space.vectors(blocks * answers);
    const float share = 1.0f / (groups * n.classes);
    for (int b = 0; b < blocks; b++)
        for (int s = 0; s < n.slots; s++)
            for (int lane = 0; lane < 8; lane++)
                for (int c = 0; c < n.classes; c++) {
                    const int at = b * answers + s * n.classes + c;
                    const float target = labels[(b * 8 + lane) * n.slots + s] == c ? 1.0f : -1.0f;
                    grad_out[at][lane] = share * (out[at][lane] - target);
                }
    unsquash(grad_out, out, blocks * answers);

    // Of each layer: the gradient of its inputs first, then its weights may change.
    float* rows = space.floats(groups * row);
    V* grad_slots = space.vectors(blocks * wide);
    memset((void*)grad_slots, 0, sizeof(V) * blocks * wide);
    by_group(slots, wide, blocks, rows, row);
    for (int s = 0; s < n.slots; s++)
        dense(grad_out + s * n.classes, answers, n.classes, w.readout, 1, n.out, nullptr, grad_slots + s * n.out, wide,
              n.out, blocks);
    for (int s = 0; s < n.slots; s++) {
        descend(grad_out + s * n.classes, answers, n.classes, rows + s * n.out, row, n.out, blocks, n.rate, w.readout);
        descend_bias(grad_out + s * n.classes, answers, n.classes, blocks, n.rate, w.readout_bias);
    }
    unsquash(grad_slots, slots, blocks * wide);

    V* grad_hidden = space.vectors(blocks * n.hidden);
    memset((void*)grad_hidden, 0, sizeof(V) * blocks * n.hidden);
    by_group(grad_slots, wide, blocks, rows, row);
    for (int s = 0; s < n.slots; s++) {
        float* matrix = w.slots + s * n.hidden * n.out;
        dense(grad_slots + s * n.out, wide, n.out, matrix, n.out, 1, nullptr, grad_hidden, n.hidden, n.hidden, blocks);
        descend(hidden, n.hidden, n.hidden, rows + s * n.out, row, n.out, blocks, n.rate, matrix);
    }
    descend_bias(grad_slots, wide, wide, blocks, n.rate, w.slots_bias);
    unsquash(grad_hidden, hidden, blocks * n.hidden);

    V* grad_third = space.vectors(blocks * THIRD);
    memset((void*)grad_third, 0, sizeof(V) * blocks * THIRD);
    dense(grad_hidden, n.hidden, n.hidden, w.fourth, 1, THIRD, nullptr, grad_third, THIRD, THIRD, blocks);
    by_group(third, THIRD, blocks, rows, row);
    descend(grad_hidden, n.hidden, n.hidden, rows, row, THIRD, blocks, n.rate, w.fourth);
    descend_bias(grad_hidden, n.hidden, n.hidden, blocks, n.rate, w.fourth_bias);
    unsquash(grad_third, third, blocks * THIRD);

    V* grad_flat = space.vectors(blocks * FLAT);
    memset((void*)grad_flat, 0, sizeof(V) * blocks * FLAT);
    dense(grad_third, THIRD, THIRD, w.third, 1, FLAT, nullptr, grad_flat, FLAT, FLAT, blocks);
    by_group(flat, FLAT, blocks, rows, row);
    descend(grad_third, THIRD, THIRD, rows, row, FLAT, blocks, n.rate, w.third);
    descend_bias(grad_third, THIRD, THIRD, blocks, n.rate, w.third_bias);

    V* grad_maps = space.vectors(blocks * pooled);
    float* turned = space.floats(std::max(first_size, second_size));
    float* grad_kernels = space.floats(std::max(first_size, second_size));
    float grad_bias[SECOND];
    turn(w.second, SECOND, FIRST, 16, turned);
    layer_backward(&second, (float*)maps, turned, (float*)flat, flat_at, (float*)grad_flat, (float*)grad_maps,
                   grad_kernels, grad_bias);
    descend_by(grad_kernels, second_size, n.rate, w.second);
    descend_by(grad_bias, SECOND, n.rate, w.second_bias);
    V* grad_in = space.vectors(blocks * pixels);
    turn(w.first, FIRST, n.maps, 9, turned);
    layer_backward(&first, (float*)in, turned, (float*)maps, maps_at, (float*)grad_maps,
                   grad_mixture ? (float*)grad_in : nullptr, grad_kernels, grad_bias);
    descend_by(grad_kernels, first_size, n.rate, w.first);
    descend_by(grad_bias, FIRST, n.rate, w.first_bias);
    if (grad_mixture) by_group(grad_in, pixels, blocks, grad_mixture, pixels);
}
