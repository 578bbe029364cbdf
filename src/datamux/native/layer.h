// One layer's sizes and its two ways, as layer.cpp has them.

#pragma once

#include "vectors.h"

struct Shape {
    int blocks, in_maps, height, width, out_maps, kernel, padding, stride, pool, tanh;
    int out_height() const { return (height + 2 * padding - kernel) / stride + 1; }
    int out_width() const { return (width + 2 * padding - kernel) / stride + 1; }
};

extern "C" void layer_forward(const Shape* shape, const float* input, const float* weight, const float* bias,
                              float* output, int* where);

// `turned` holds the weights as the way back needs them: [in maps][out maps][kernel mirrored]. The gradients
// of the input and of the bias may be null; that of the input asks for a stride of 1.
extern "C" void layer_backward(const Shape* shape, const float* input, const float* turned, const float* output,
                               const int* where, const float* grad, float* grad_input, float* grad_weight,
                               float* grad_bias);
