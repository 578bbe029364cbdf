// One convolution, pooled if asked for, tanh if asked for, and its way back, for networks of few and small maps.
//
//   z[o][y][x] = bias[o] + sum over c, dy, dx of w[o][c][dy][dx] in[c][y s + dy - p][x s + dx - p]
//   out        = tanh(z), or of the largest of each 2x2 of z
//
// Eight instances lie side by side in one vector: arrays are [blocks of 8][maps][height][width][8]. So every operation on
// a pixel is one on eight instances, and no map is too small for it. Knows nothing of torch. Sizes are checked by the caller.

#include "layer.h"

#include <cstring>

#include "convolve.h"

static thread_local std::vector<V> padded_memory, sums_memory, grad_memory;

// The maps with a border of zeros around them; as they are where there is none.
static const V* padded(const V* maps, int count, int height, int width, int border) {
    if (border == 0) return maps;
    const int row = width + 2 * border, plane = (height + 2 * border) * row;
    V* whole = room(padded_memory, (size_t)count * plane);
    memset((void*)whole, 0, sizeof(V) * count * plane);
    for (int c = 0; c < count; c++)
        for (int y = 0; y < height; y++)
            memcpy((void*)(whole + c * plane + (y + border) * row + border), maps + (c * height + y) * width,
                   sizeof(V) * width);
    return whole;
}

static void pool_into(const V* z, int height, int width, bool squash, V* out, I* where) {
    for (int y = 0; y + 1 < height; y += 2)
        for (int x = 0; x + 1 < width; x += 2) {
            const V each[4] = {z[y * width + x], z[y * width + x + 1], z[(y + 1) * width + x], z[(y + 1) * width + x + 1]};
            V best = each[0];
            I place = {};
            for (int k = 1; k < 4; k++) {
                I more = each[k] > best;
                best = more ? each[k] : best;
                place = more ? I{} + k : place;
            }
            *out++ = squash ? tanh_of(best) : best;
            *where++ = place;
        }
}

// The gradient of z in a frame with a border of zeros, from that of the output.
static void spread(const V* out, const I* where, const V* grad, const Shape& s, int border, V* dz) {
    const int height = s.out_height(), width = s.out_width(), row = width + 2 * border;
    const int plane = (height + 2 * border) * row;
    memset((void*)dz, 0, sizeof(V) * s.out_maps * plane);
    for (int o = 0; o < s.out_maps; o++) {
        V* frame = dz + o * plane + border * row + border;
        const int step = s.pool ? 2 : 1;
        for (int y = 0; y + step <= height; y += step)
            for (int x = 0; x + step <= width; x += step) {
                V g = *grad++, value = *out++;
                if (s.tanh) g *= 1.0f - value * value;
                if (!s.pool) {
                    frame[y * row + x] = g;
                    continue;
                }
                I place = *where++;
                for (int k = 0; k < 4; k++) frame[(y + k / 2) * row + x + k % 2] = place == k ? g : V{};
            }
    }
}

extern "C" void layer_forward(const Shape* shape, const float* input, const float* weight, const float* bias,
                              float* output, int* where) {
    const Shape& s = *shape;
    const int height = s.out_height(), width = s.out_width(), plane = height * width;
    const int kept = s.pool ? (height / 2) * (width / 2) : plane;
    const int row = s.width + 2 * s.padding, in_plane = (s.height + 2 * s.padding) * row;
    V* sums = s.pool ? room(sums_memory, (size_t)s.out_maps * plane) : nullptr;
    for (int b = 0; b < s.blocks; b++) {
        const V* in = padded((const V*)input + (size_t)b * s.in_maps * s.height * s.width, s.in_maps, s.height, s.width,
                             s.padding);
        V* out = (V*)output + (size_t)b * s.out_maps * kept;
        V* z = s.pool ? sums : out;
        convolve(s.kernel, s.out_maps, width, in, in_plane, row, s.padding, s.height, s.in_maps, s.stride, weight, bias, z,
                 plane, width, s.out_maps, height, width);
        if (s.pool)
            for (int o = 0; o < s.out_maps; o++)
                pool_into(z + o * plane, height, width, s.tanh, out + o * kept,
                          (I*)where + ((size_t)b * s.out_maps + o) * kept);
        else if (s.tanh)
            for (int i = 0; i < s.out_maps * plane; i++) out[i] = tanh_of(out[i]);
    }
}

extern "C" void layer_backward(const Shape* shape, const float* input, const float* turned, const float* output,
                               const int* where, const float* grad, float* grad_input, float* grad_weight,
                               float* grad_bias) {
    const Shape& s = *shape;
    const int height = s.out_height(), width = s.out_width(), K = s.kernel;
    const int border = K - 1 - s.padding, kept = s.pool ? (height / 2) * (width / 2) : height * width;
    const int dz_row = width + 2 * border, dz_plane = (height + 2 * border) * dz_row;
    const int row = s.width + 2 * s.padding, in_plane = (s.height + 2 * s.padding) * row;
    const int kernels = s.out_maps * s.in_maps * K * K;
    V* dz = room(sums_memory, (size_t)s.out_maps * dz_plane);
    V* sums = room(grad_memory, kernels + s.out_maps);
    memset((void*)sums, 0, sizeof(V) * (kernels + s.out_maps));
    for (int b = 0; b < s.blocks; b++) {
        const size_t first = (size_t)b * s.out_maps * kept, first_in = (size_t)b * s.in_maps * s.height * s.width;
        spread((const V*)output + first, (const I*)where + (where ? first : 0), (const V*)grad + first, s, border, dz);
        const V* inner = dz + border * dz_row + border;
        if (grad_bias)
            for (int o = 0; o < s.out_maps; o++)
                for (int i = 0; i < dz_plane; i++) sums[kernels + o] += dz[o * dz_plane + i];
        const V* in = padded((const V*)input + first_in, s.in_maps, s.height, s.width, s.padding);
        auto by = K == 3 ? gradient<3> : K == 4 ? gradient<4> : gradient<5>;
        by(in, in_plane, row, s.in_maps, s.stride, inner, dz_plane, dz_row, s.out_maps, height, width, sums);
        if (grad_input)
            convolve(K, s.in_maps, s.width, dz, dz_plane, dz_row, border, height, s.out_maps, 1, turned,
                     (const float*)nullptr, (V*)grad_input + first_in, s.height * s.width, s.width, s.in_maps, s.height,
                     s.width);
    }
    for (int i = 0; i < kernels; i++) grad_weight[i] = total(sums[i]);
    for (int o = 0; grad_bias && o < s.out_maps; o++) grad_bias[o] = total(sums[kernels + o]);
}
