// What the programs here share beyond capture-samples/programs/sample.h.
#pragma once

#include "sample.h"

// `count` floats in [low, high) that depend on `seed` alone.
inline std::vector<float> floats(size_t count, uint32_t seed, float low, float high) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) {
        values[i] = low + (high - low) * 0.5f * (noise(static_cast<uint32_t>(i), seed) + 1.0f);
    }
    return values;
}
