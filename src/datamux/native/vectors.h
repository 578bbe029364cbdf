// Vectors of eight instances: their tanh, and the ways between them and rows of numbers, one an instance.

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

static inline float total(V sum) {
    float of_all = 0;
    for (int lane = 0; lane < 8; lane++) of_all += sum[lane];
    return of_all;
}

static inline V* room(std::vector<V>& memory, std::size_t size) {
    if (memory.size() < size) memory.resize(size);
    return memory.data();
}

// [blocks][units][8] -> [groups][row], a row at least the units.
static inline void by_group(const V* values, int units, int blocks, float* rows, int row) {
    const float* from = (const float*)values;
    for (int b = 0; b < blocks; b++, from += units * 8, rows += 8 * row)
        for (int lane = 0; lane < 8; lane++)
            for (int i = 0; i < units; i++) rows[lane * row + i] = from[i * 8 + lane];
}

static inline void by_block(const float* rows, int units, int blocks, V* values) {
    float* to = (float*)values;
    for (int b = 0; b < blocks; b++, to += units * 8, rows += 8 * units)
        for (int i = 0; i < units; i++)
            for (int lane = 0; lane < 8; lane++) to[i * 8 + lane] = rows[lane * units + i];
}
