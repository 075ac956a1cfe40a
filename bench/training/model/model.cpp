// Checks and places a batch of the language model, and runs the fastest passes for its scalar.
#include <truestep/training/model.hpp>

#include <new>
#include <string>

#include <truestep/problem/error.hpp>

#include "passes.hpp"

namespace truestep::training {

namespace {

constexpr std::align_val_t alignment{64};

Sizes sizes_of(const Shape& shape, std::size_t windows) {
    const auto count = [](std::size_t value) { return static_cast<Count>(value); };
    return {count(shape.symbols), count(shape.context), count(shape.width),
            count(shape.layers),  count(shape.heads),   count(windows)};
}

template <class Scalar>
const Passes<Scalar>& best_passes();

template <>
const Passes<double>& best_passes<double>() {
    return double_passes;
}

template <>
const Passes<float>& best_passes<float>() {
#if defined(__x86_64__)
    const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
    if (avx2 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512dq") != 0)
        return avx512_passes;
    if (avx2)
        return avx2_passes;
#endif
    return plain_passes;
}

void check_symbols(std::span<const std::uint8_t> text, const Shape& shape) {
    for (const std::uint8_t symbol : text)
        if (symbol >= shape.symbols)
            throw Error("a batch has symbol " + std::to_string(symbol) + "; the model has those below " +
                        std::to_string(shape.symbols));
}

} // namespace

template <class Scalar>
Model<Scalar>::Model(const Shape& shape, std::size_t most_windows)
    : shape_(shape), size_(static_cast<std::size_t>(layout_of(shape).size())), most_windows_(most_windows),
      room_(static_cast<Scalar*>(::operator new(bytes(shape, most_windows), alignment))) {}

template <class Scalar>
void Model<Scalar>::Free::operator()(Scalar* room) const {
    ::operator delete(room, alignment);
}

template <class Scalar>
std::size_t Model<Scalar>::bytes(const Shape& shape, std::size_t windows) {
    return best_passes<Scalar>().room(sizes_of(shape, windows)) * sizeof(Scalar);
}

template <class Scalar>
std::size_t Model<Scalar>::windows_of(std::span<const Scalar> parameters, const Batch& batch) const {
    const std::size_t windows = batch.inputs.size() / shape_.context;
    if (windows == 0 || windows > most_windows_ || windows * shape_.context != batch.inputs.size() ||
        batch.targets.size() != batch.inputs.size())
        throw Error("a batch has " + std::to_string(batch.inputs.size()) + " symbols and " +
                    std::to_string(batch.targets.size()) + " targets; as many of both are needed, 1 to " +
                    std::to_string(most_windows_) + " windows of " + std::to_string(shape_.context));
    if (parameters.size() != size_)
        throw Error(std::to_string(parameters.size()) + " parameters are given; the model has " +
                    std::to_string(size_));
    check_symbols(batch.inputs, shape_);
    check_symbols(batch.targets, shape_);
    return windows;
}

template <class Scalar>
double Model<Scalar>::loss(std::span<const Scalar> parameters, const Batch& batch,
                           StageBoundary<Scalar>* between) {
    const Sizes sizes = sizes_of(shape_, windows_of(parameters, batch));
    return best_passes<Scalar>().loss(sizes, parameters.data(), batch.inputs.data(), batch.targets.data(),
                                      room_.get(), between);
}

template <class Scalar>
double Model<Scalar>::loss_and_gradient(std::span<const Scalar> parameters, const Batch& batch,
                                        std::span<Scalar> gradient, StageBoundary<Scalar>* between) {
    const Sizes sizes = sizes_of(shape_, windows_of(parameters, batch));
    if (gradient.size() != size_)
        throw Error("there is room for " + std::to_string(gradient.size()) +
                    " values of a gradient; the model has " + std::to_string(size_));
    return best_passes<Scalar>().loss_and_gradient(sizes, parameters.data(), batch.inputs.data(),
                                                   batch.targets.data(), gradient.data(), room_.get(),
                                                   between);
}

template class Model<float>;
template class Model<double>;

} // namespace truestep::training
