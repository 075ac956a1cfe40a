// Adds the parts of a gradient, for the training of implementations that take no parts.
#include <truestep/gate/learning.hpp>

namespace truestep::gate {

std::vector<float> sum_of(const std::vector<std::vector<float>>& parts) {
    std::vector<float> sum = parts.front();
    for (std::size_t part = 1; part < parts.size(); ++part)
        for (std::size_t i = 0; i < sum.size(); ++i)
            sum[i] += parts[part][i];
    return sum;
}

} // namespace truestep::gate
