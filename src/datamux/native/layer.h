// What the sources here share: vectors of eight instances, tanh of them, and one layer's sizes and its two ways.

#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

typedef float V __attribute__((vector_size(32)));
typedef int I __attribute__((vector_size(32)));

template <int N>
using Count = std::integral_constant<int, N>;

static inline V all(float value) { return V{} + value; }

static inline V exponential(V t) {
    const V magic = all(12582912.0f);  // adding it rounds to a whole number
    V rounded = t * 1.44269504f + magic;
    V whole = rounded - magic;
    V r = t - whole * 0.693359375f + whole * 2.12194440e-4f;
    V p = all(1.9875691e-4f);
    p = p * r + 1.3981999e-3f;
    p = p * r + 8.3334519e-3f;
    p = p * r + 4.1665796e-2f;
    p = p * r + 1.6666665e-1f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    I bits = (__builtin_convertvector(whole, I) + 127) << 23;
    return p * (V)bits;
}

static inline V tanh_of(V x) {
    x = x > 9.0f ? all(9.0f) : x;
    x = x < -9.0f ? all(-9.0f) : x;
    V e = exponential(x + x);
    return (e - 1.0f) / (e + 1.0f);
}

static inline V* room(std::vector<V>& memory, std::size_t size) {
    if (memory.size() < size) memory.resize(size);
    return memory.data();
}

struct Shape {
    int blocks, groups, in_maps, height, width, out_maps, kernel, padding, stride, pool, tanh;
    int out_height() const { return (height + 2 * padding - kernel) / stride + 1; }
    int out_width() const { return (width + 2 * padding - kernel) / stride + 1; }
};

extern "C" void layer_forward(const Shape* shape, const float* input, const float* weight, const float* bias,
                              float* output, int* where);

// `turned` holds the weights as the way back needs them: [groups][in maps][out maps][kernel mirrored]. Any of the three
// gradients may be null. The gradient of the input asks for a stride of 1.
extern "C" void layer_backward(const Shape* shape, const float* input, const float* turned, const float* output,
                               const int* where, const float* grad, float* grad_input, float* grad_weight,
                               float* grad_bias);
