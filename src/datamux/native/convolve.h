// The two sums that a convolution and its way back are made of, on vectors of eight instances. `plane` and `row` are what
// lies between two maps and two rows; what comes in has its border already: `border` rows of zeros over `filled` rows that
// are not, which are left out.

#pragma once

#include <algorithm>

#include "vectors.h"

// OB maps by XB pixels of a row, kept in registers.
template <int K, int OB, int XB>
static inline void tile(const V* in, int plane, int row, int in_maps, int stride, int first, int last, const float* w,
                        V* out, int out_plane, const float* bias) {
    V sum[OB][XB];
#pragma GCC unroll 16
    for (int o = 0; o < OB; o++)
#pragma GCC unroll 16
        for (int x = 0; x < XB; x++) sum[o][x] = all(bias ? bias[o] : 0.0f);
    const int per_map = in_maps * K * K;
    for (int c = 0; c < in_maps; c++, in += plane, w += K * K)
#pragma GCC unroll 1
        for (int dy = first; dy < last; dy++) {
            const V* line = in + dy * row;
#pragma GCC unroll 16
            for (int dx = 0; dx < K; dx++) {
                V weight[OB];
#pragma GCC unroll 16
                for (int o = 0; o < OB; o++) weight[o] = all(w[o * per_map + dy * K + dx]);
#pragma GCC unroll 16
                for (int x = 0; x < XB; x++) {
                    V pixel = line[x * stride + dx];
#pragma GCC unroll 16
                    for (int o = 0; o < OB; o++) sum[o][x] += weight[o] * pixel;
                }
            }
        }
#pragma GCC unroll 16
    for (int o = 0; o < OB; o++)
#pragma GCC unroll 16
        for (int x = 0; x < XB; x++) out[o * out_plane + x] = sum[o][x];
}

template <int K, int XB>
static void convolve_by(const V* in, int plane, int row, int border, int filled, int in_maps, int stride, const float* w,
                        const float* bias, V* out, int out_plane, int out_row, int out_maps, int height, int width) {
    constexpr int OB = XB > 6 ? 1 : XB > 3 ? 2 : 4;
    const int per_map = in_maps * K * K;
    for (int y = 0; y < height; y++) {
        const int first = std::max(0, border - y * stride), last = std::min(K, border + filled - y * stride);
        for (int x = 0; x < width; x += XB) {
            const V* from = in + y * stride * row + x * stride;
            V* to = out + y * out_row + x;
            int o = 0;
            const auto some = [&](auto count) {
                constexpr int each = decltype(count)::value;
                for (; o + each <= out_maps; o += each)
                    tile<K, each, XB>(from, plane, row, in_maps, stride, first, last, w + o * per_map,
                                      to + o * out_plane, out_plane, bias ? bias + o : nullptr);
            };
            some(Count<OB>());
            some(Count<(OB > 2 ? 2 : 1)>());
            some(Count<1>());
        }
    }
}

template <int K, typename... Rest>
static void convolve_k(int out_maps, int width, Rest... rest) {
    if (out_maps == 1 && width % 10 == 0) convolve_by<K, 10>(rest...);
    else if (width % 6 == 0) convolve_by<K, 6>(rest...);
    else if (width % 5 == 0) convolve_by<K, 5>(rest...);
    else if (width % 4 == 0) convolve_by<K, 4>(rest...);
    else if (width % 3 == 0) convolve_by<K, 3>(rest...);
    else convolve_by<K, 1>(rest...);
}

template <typename... Rest>
static void convolve(int kernel, int out_maps, int width, Rest... rest) {
    if (kernel == 3) convolve_k<3>(out_maps, width, rest...);
    else if (kernel == 4) convolve_k<4>(out_maps, width, rest...);
    else convolve_k<5>(out_maps, width, rest...);
}

// What the gradient of OB by CB kernels gains from some rows, a row of each kernel (dy) at a time.
template <int K, int OB, int CB>
static inline void gather(const V* in, int plane, int row, int stride, const V* dz, int dz_plane, int dz_row, int rows,
                          int width, V* grad, int grad_map) {
    V sum[OB][CB][K];
#pragma GCC unroll 16
    for (int o = 0; o < OB; o++)
#pragma GCC unroll 16
        for (int c = 0; c < CB; c++)
#pragma GCC unroll 16
            for (int dx = 0; dx < K; dx++) sum[o][c][dx] = grad[o * grad_map + c * K * K + dx];
    for (int y = 0; y < rows; y++)
        for (int x = 0; x < width; x++) {
            V delta[OB];
#pragma GCC unroll 16
            for (int o = 0; o < OB; o++) delta[o] = dz[o * dz_plane + y * dz_row + x];
#pragma GCC unroll 16
            for (int c = 0; c < CB; c++)
#pragma GCC unroll 16
                for (int dx = 0; dx < K; dx++) {
                    V pixel = in[c * plane + y * stride * row + x * stride + dx];
#pragma GCC unroll 16
                    for (int o = 0; o < OB; o++) sum[o][c][dx] += delta[o] * pixel;
                }
        }
#pragma GCC unroll 16
    for (int o = 0; o < OB; o++)
#pragma GCC unroll 16
        for (int c = 0; c < CB; c++)
#pragma GCC unroll 16
            for (int dx = 0; dx < K; dx++) grad[o * grad_map + c * K * K + dx] = sum[o][c][dx];
}

template <int K>
static void gradient(const V* in, int plane, int row, int in_maps, int stride, const V* dz, int dz_plane, int dz_row,
                     int out_maps, int height, int width, V* grad) {
    constexpr int OB = K == 3 ? 4 : 2, ROWS = 6;  // so that what is read again stays in the nearest cache
    const int grad_map = in_maps * K * K;
    for (int y = 0; y < height; y += ROWS) {
        const int rows = height - y < ROWS ? height - y : ROWS;
        for (int dy = 0; dy < K; dy++) {
            const V* from = in + (y * stride + dy) * row;
            const V* delta = dz + y * dz_row;
            V* to = grad + dy * K;
            int o = 0;
            for (; o + OB <= out_maps; o += OB)
                for (int c = 0; c < in_maps; c++)
                    gather<K, OB, 1>(from + c * plane, plane, row, stride, delta + o * dz_plane, dz_plane, dz_row, rows,
                                     width, to + o * grad_map + c * K * K, grad_map);
            for (; o < out_maps; o++) {
                int c = 0;
                for (; c + OB <= in_maps; c += OB)
                    gather<K, 1, OB>(from + c * plane, plane, row, stride, delta + o * dz_plane, dz_plane, dz_row, rows,
                                     width, to + o * grad_map + c * K * K, grad_map);
                for (; c < in_maps; c++)
                    gather<K, 1, 1>(from + c * plane, plane, row, stride, delta + o * dz_plane, dz_plane, dz_row, rows,
                                    width, to + o * grad_map + c * K * K, grad_map);
            }
        }
    }
}
