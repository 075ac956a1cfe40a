// Checks the language model's sizes, lays out its tensors, and draws its initial parameters.
#include <cmath>
#include <numbers>
#include <string>
#include <string_view>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/training/draw.hpp>
#include <truestep/training/model.hpp>

namespace truestep::training {

namespace {

using problem::Index;

void check_one(std::string_view what, std::size_t value, std::size_t least, std::size_t most) {
    if (value < least || value > most)
        throw Error("the model's " + std::string(what) + " is " + std::to_string(value) +
                    "; it must be from " + std::to_string(least) + " to " + std::to_string(most));
}

/// Approximately normal with variance 1: a sum of four uniform numbers.
double normal(std::uint64_t bits) {
    double sum = 0;
    for (int piece = 0; piece < 4; ++piece)
        sum += static_cast<double>(bits >> (16U * static_cast<unsigned>(piece)) & 0xffffU) - 32767.5;
    constexpr double deviation = 65536 * std::numbers::inv_sqrt3;
    return sum / deviation;
}

/// The deviation of a tensor's first values; 0 if they are 1.
double spread(const Shape& shape, std::string_view tensor) {
    if (tensor.ends_with("norm"))
        return 0;
    if (tensor == "token" || tensor == "position")
        return 0.02;
    const bool down = tensor.ends_with("down");
    const auto inner = static_cast<double>(shape.width * (down ? 4 : 1));
    const double matrix = 1 / std::sqrt(3 * inner);
    // Values that are added to the stream, 2L times, are smaller accordingly.
    const bool adds = down || tensor.ends_with("projection");
    return adds ? matrix / std::sqrt(2 * static_cast<double>(shape.layers)) : matrix;
}

} // namespace

void check(const Shape& shape) {
    check_one("symbols", shape.symbols, 2, 256);
    check_one("context", shape.context, 1, 4096);
    check_one("width", shape.width, 1, 8192);
    check_one("layers", shape.layers, 1, 256);
    check_one("heads", shape.heads, 1, shape.width);
    if (shape.width % shape.heads != 0)
        throw Error("the model's width is " + std::to_string(shape.width) +
                    "; it must be a multiple of its " + std::to_string(shape.heads) + " heads");
}

problem::Layout layout_of(const Shape& shape) {
    check(shape);
    const auto C = static_cast<Index>(shape.width);
    std::vector<problem::Tensor> tensors{{"token", static_cast<Index>(shape.symbols) * C},
                                         {"position", static_cast<Index>(shape.context) * C}};
    for (std::size_t layer = 0; layer < shape.layers; ++layer) {
        const std::string block = "block" + std::to_string(layer) + ".";
        tensors.push_back({block + "attention_norm", C, true});
        tensors.push_back({block + "qkv", 3 * C * C});
        tensors.push_back({block + "projection", C * C});
        tensors.push_back({block + "mlp_norm", C, true});
        tensors.push_back({block + "up", 4 * C * C});
        tensors.push_back({block + "down", 4 * C * C});
    }
    tensors.push_back({"norm", C, true});
    return problem::Layout(std::move(tensors));
}

std::vector<float> initial_parameters(const Shape& shape, std::uint64_t seed) {
    const problem::Layout layout = layout_of(shape);
    std::vector<float> parameters(static_cast<std::size_t>(layout.size()), 1.0F);
    for (std::size_t tensor = 0; tensor < layout.tensors().size(); ++tensor) {
        const double width = spread(shape, layout.tensors()[tensor].name);
        if (width > 0)
            for (Index i = layout.begin(tensor); i < layout.end(tensor); ++i)
                parameters[static_cast<std::size_t>(i)] =
                    static_cast<float>(width * normal(drawn({seed, 0, static_cast<std::uint64_t>(i)})));
    }
    return parameters;
}

} // namespace truestep::training
