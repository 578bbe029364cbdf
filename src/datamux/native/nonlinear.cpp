// The paper's nonlinear multiplexer, all slots of it, there and back.
//
//   mixture = sum over slots of tanh(W2 * tanh(W1 * image + b1) + b2),   kernels of 3x3, a border of one pixel
//
// Eight groups lie side by side in a vector. What one slot makes of eight groups stays in the cache from the first
// convolution to the last sum, which is why this is not two calls of layer.cpp. Sizes are checked by the caller.

#include <cstring>

#include "convolve.h"

struct Slots {
    int blocks, slots, kernels, maps, side;
    int pixels() const { return side * side; }
    int row() const { return side + 2; }  // with a border
    int plane() const { return row() * row(); }
};

static thread_local std::vector<V> sum_memory, frame_memory, inner_memory, kernel_memory, lane_memory;

// Eight images, one after another in `step` numbers, into a frame whose border is zero.
static void framed(const float* images, size_t step, const Slots& s, V* frame) {
    memset((void*)frame, 0, sizeof(V) * s.plane());
    for (int y = 0; y < s.side; y++)
        for (int x = 0; x < s.side; x++) {
            float* to = (float*)(frame + (y + 1) * s.row() + x + 1);
            for (int lane = 0; lane < 8; lane++) to[lane] = images[lane * step + y * s.side + x];
        }
}

// tanh within a frame; its border becomes zero.
static void squash_frame(const Slots& s, V* frame) {
    const int row = s.row();
    memset((void*)frame, 0, sizeof(V) * row);
    for (int y = 1; y <= s.side; y++) {
        V* line = frame + y * row;
        line[0] = line[s.side + 1] = V{};
        for (int x = 1; x <= s.side; x++) line[x] = tanh_of(line[x]);
    }
    memset((void*)(frame + (s.side + 1) * row), 0, sizeof(V) * row);
}

// images (8 blocks, slots, pixels), mixture (8 blocks, maps pixels). For the way back: frames [slots][blocks][plane][8] of
// the images, inner [slots][blocks][kernels][plane][8] and outer [slots][blocks][maps][pixels][8]. Biases may be null.
extern "C" void nonlinear_forward(const Slots* slots, const float* images, const float* first, const float* first_bias,
                                  const float* second, const float* second_bias, float* mixture, float* frames,
                                  float* inner, float* outer) {
    const Slots& s = *slots;
    const int row = s.row(), plane = s.plane(), pixels = s.pixels(), wide = s.maps * pixels;
    V* sums = room(sum_memory, (size_t)s.blocks * wide);
    memset((void*)sums, 0, sizeof(V) * s.blocks * wide);
    for (int i = 0; i < s.slots; i++)
        for (int b = 0; b < s.blocks; b++) {
            const size_t set = (size_t)i * s.blocks + b;
            V* frame = (V*)frames + set * plane;
            V* hidden = (V*)inner + set * s.kernels * plane;
            V* out = (V*)outer + set * wide;
            V* sum = sums + (size_t)b * wide;
            framed(images + ((size_t)b * 8 * s.slots + i) * pixels, (size_t)s.slots * pixels, s, frame);
            convolve(3, s.kernels, s.side, (const V*)frame, plane, row, 1, s.side, 1, 1, first + i * s.kernels * 9,
                     first_bias ? first_bias + i * s.kernels : (const float*)nullptr, hidden + row + 1, plane, row,
                     s.kernels, s.side, s.side);
            for (int k = 0; k < s.kernels; k++) squash_frame(s, hidden + k * plane);
            convolve(3, s.maps, s.side, (const V*)hidden, plane, row, 1, s.side, s.kernels, 1,
                     second + i * s.maps * s.kernels * 9, second_bias ? second_bias + i * s.maps : (const float*)nullptr,
                     out, pixels, s.side, s.maps, s.side, s.side);
            for (int p = 0; p < wide; p++) {
                out[p] = tanh_of(out[p]);
                sum[p] += out[p];
            }
        }
    by_group(sums, wide, s.blocks, mixture, wide);
}

static void add_up(const V* values, int count, V& sum) {
    for (int i = 0; i < count; i++) sum += values[i];
}

// `turned` is second, mirrored: [slots][kernels][maps][3][3]. `grad` (8 blocks, maps pixels) is of the mixture. What was
// made last comes first: it is still near.
extern "C" void nonlinear_backward(const Slots* slots, const float* turned, const float* frames, const float* inner,
                                   const float* outer, const float* grad, float* grad_first, float* grad_first_bias,
                                   float* grad_second, float* grad_second_bias) {
    const Slots& s = *slots;
    const int row = s.row(), plane = s.plane(), pixels = s.pixels();
    const int of_first = s.kernels * 9, of_second = s.maps * s.kernels * 9;
    V* lanes = room(lane_memory, (size_t)s.blocks * s.maps * pixels);
    V* frame = room(frame_memory, (size_t)s.maps * plane);
    V* back = room(inner_memory, (size_t)s.kernels * pixels);
    V* sums = room(kernel_memory, of_first + of_second + s.kernels + s.maps);
    by_block(grad, s.maps * pixels, s.blocks, lanes);
    memset((void*)frame, 0, sizeof(V) * s.maps * plane);
    for (int i = s.slots - 1; i >= 0; i--) {
        memset((void*)sums, 0, sizeof(V) * (of_first + of_second + s.kernels + s.maps));
        V *second_sums = sums + of_first, *first_biases = second_sums + of_second, *second_biases = first_biases + s.kernels;
        for (int b = s.blocks - 1; b >= 0; b--) {
            const size_t set = (size_t)i * s.blocks + b;
            const V* hidden = (const V*)inner + set * s.kernels * plane;
            const V* out = (const V*)outer + set * s.maps * pixels;
            const V* given = lanes + (size_t)b * s.maps * pixels;
            for (int m = 0; m < s.maps; m++)
                for (int y = 0; y < s.side; y++)
                    for (int x = 0; x < s.side; x++) {
                        const int p = (m * s.side + y) * s.side + x;
                        frame[m * plane + (y + 1) * row + x + 1] = given[p] * (1.0f - out[p] * out[p]);
                    }
            for (int m = 0; grad_second_bias && m < s.maps; m++) add_up(frame + m * plane, plane, second_biases[m]);
            gradient<3>(hidden, plane, row, s.kernels, 1, frame + row + 1, plane, row, s.maps, s.side, s.side, second_sums);
            convolve(3, s.kernels, s.side, (const V*)frame, plane, row, 1, s.side, s.maps, 1, turned + (size_t)i * of_second,
                     (const float*)nullptr, back, pixels, s.side, s.kernels, s.side, s.side);
            for (int k = 0; k < s.kernels; k++)
                for (int y = 0; y < s.side; y++)
                    for (int x = 0; x < s.side; x++) {
                        V value = hidden[k * plane + (y + 1) * row + x + 1];
                        back[(k * s.side + y) * s.side + x] *= 1.0f - value * value;
                    }
            for (int k = 0; grad_first_bias && k < s.kernels; k++) add_up(back + k * pixels, pixels, first_biases[k]);
            gradient<3>((const V*)frames + set * plane, plane, row, 1, 1, back, pixels, s.side, s.kernels, s.side, s.side,
                        sums);
        }
        for (int k = 0; k < of_first; k++) grad_first[(size_t)i * of_first + k] = total(sums[k]);
        for (int k = 0; k < of_second; k++) grad_second[(size_t)i * of_second + k] = total(second_sums[k]);
        for (int k = 0; grad_first_bias && k < s.kernels; k++) grad_first_bias[i * s.kernels + k] = total(first_biases[k]);
        for (int m = 0; grad_second_bias && m < s.maps; m++) grad_second_bias[i * s.maps + m] = total(second_biases[m]);
    }
}
