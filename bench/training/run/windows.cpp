#include "windows.hpp"

#include <algorithm>
#include <cassert>

#include <truestep/training/draw.hpp>

namespace truestep::training {

Windows::Windows(const Text& text, std::size_t context, std::size_t measured)
    : text_(text), context_(context),
      measured_count_(std::min(measured, (text.measured.size() - 1) / context)) {
    assert(text.learned.size() > context && measured_count_ > 0);
}

const Batch& Windows::drawn(std::uint64_t seed, int rank, std::size_t step, std::size_t windows) {
    clear();
    // The number after the seed distinguishes batches from first parameters, which have 0 there.
    const auto place = static_cast<std::uint64_t>(rank) + 1;
    for (std::size_t window = 0; window < windows; ++window)
        add(text_.learned,
            training::drawn({seed, place, step, window}) % (text_.learned.size() - context_));
    return taken();
}

const Batch& Windows::measured(std::size_t first, std::size_t windows) {
    clear();
    const std::size_t room = text_.measured.size() - 1 - measured_count_ * context_;
    for (std::size_t window = first; window < first + windows; ++window)
        add(text_.measured, window * context_ + window * room / measured_count_);
    return taken();
}

void Windows::clear() {
    inputs_.clear();
    targets_.clear();
}

void Windows::add(const std::vector<std::uint8_t>& from, std::size_t begin) {
    const auto at = from.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto size = static_cast<std::ptrdiff_t>(context_);
    inputs_.insert(inputs_.end(), at, at + size);
    targets_.insert(targets_.end(), at + 1, at + size + 1);
}

const Batch& Windows::taken() {
    batch_ = {inputs_, targets_};
    return batch_;
}

} // namespace truestep::training
