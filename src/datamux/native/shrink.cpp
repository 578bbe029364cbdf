// Means over windows that cover a square map, as torch's adaptive_avg_pool2d takes them, on vectors of eight instances.

#include <cstring>

#include "vectors.h"

struct Windows {
    int maps, side, size;
    int from(int i) const { return i * side / size; }
    int to(int i) const { return ((i + 1) * side + size - 1) / size; }
};

template <typename Each>
static inline void every_window(const Windows& w, Each each) {
    for (int y = 0; y < w.size; y++)
        for (int x = 0; x < w.size; x++) {
            const int top = w.from(y), bottom = w.to(y), left = w.from(x), right = w.to(x);
            each(top, bottom, left, right, 1.0f / ((bottom - top) * (right - left)));
        }
}

// [maps][side][side][8] -> [maps][size][size][8]
extern "C" void shrink_forward(const Windows* windows, const float* input, float* output) {
    const V* in = (const V*)input;
    V* out = (V*)output;
    for (int m = 0; m < windows->maps; m++, in += windows->side * windows->side)
        every_window(*windows, [&](int top, int bottom, int left, int right, float share) {
            V sum = {};
            for (int y = top; y < bottom; y++)
                for (int x = left; x < right; x++) sum += in[y * windows->side + x];
            *out++ = sum * share;
        });
}

extern "C" void shrink_backward(const Windows* windows, const float* grad, float* grad_input) {
    const V* from = (const V*)grad;
    V* to = (V*)grad_input;
    for (int m = 0; m < windows->maps; m++, to += windows->side * windows->side) {
        memset((void*)to, 0, sizeof(V) * windows->side * windows->side);
        every_window(*windows, [&](int top, int bottom, int left, int right, float share) {
            V each = *from++ * share;
            for (int y = top; y < bottom; y++)
                for (int x = left; x < right; x++) to[y * windows->side + x] += each;
        });
    }
}
