// Drives one rank's backend phase by phase, counts its least bytes, and checks it against the host.
#include "gpu/rank.hpp"

#include <bit>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>

#include <truestep/distributed/scape/host_backend.hpp>

#include "gpu/algorithms.hpp"
#include "peers/arithmetic.hpp"

namespace truestep::gpu::bench {

namespace {

/// Tensors of 2^24 values, as in large models, and the remainder.
problem::Layout layout_of(Index size) {
    constexpr Index largest = Index{1} << 24;
    std::vector<problem::Tensor> tensors;
    for (Index begin = 0; begin < size; begin += largest)
        tensors.push_back(
            {"tensor" + std::to_string(tensors.size()), std::min(largest, size - begin), false});
    return problem::Layout(std::move(tensors));
}

Index count(const std::vector<distributed::scape::MaskCode::Part>& parts) {
    Index sum = 0;
    for (const auto& part : parts)
        sum += part.k;
    return sum;
}

Index wrong_bits(std::span<const float> one, std::span<const float> other) {
    if (one.size() != other.size())
        return static_cast<Index>(std::max(one.size(), other.size()));
    Index wrong = 0;
    for (std::size_t i = 0; i < one.size(); ++i)
        wrong += std::bit_cast<std::uint32_t>(one[i]) != std::bit_cast<std::uint32_t>(other[i]) ? 1 : 0;
    return wrong;
}

} // namespace

std::string_view name(Phase phase) {
    constexpr std::array<std::string_view, phases.size()> names{
        "check",    "decode mask", "advance mask", "local pass",       "selection",
        "exchange", "fold",        "reconstruct",  "update with decay"};
    return names[static_cast<std::size_t>(phase)];
}

Setting::Setting(Index d, double share, int workers)
    : problem(problem::make_problem(problem::Algorithm::scape, workers, layout_of(d),
                                    problem::PartitionRule::by_shard, {})),
      size(d), density(share) {
    for (const problem::Segment& segment : problem.segments) {
        const distributed::scape::MaskCode::Part part{
            segment.begin, segment.end,
            problem::selected_count(segment, density, problem.settings.k_rounding)};
        all.push_back(part);
        if (segment.owner == 0) {
            own.push_back(part);
            shard += segment.size();
        }
    }
    selected = count(all);
    own_selected = count(own);
    code = distributed::scape::MaskCode::bytes(all);
    own_code = distributed::scape::MaskCode::bytes(own);
}

double least_bytes(Phase phase, const Setting& setting) {
    const auto d = static_cast<double>(setting.size);
    const auto n = static_cast<double>(setting.shard);
    const auto k = static_cast<double>(setting.selected);
    const auto own = static_cast<double>(setting.own_selected);
    const auto workers = static_cast<double>(setting.problem.workers);
    constexpr double value = 4.0;
    constexpr double bit = 1.0 / 8.0;
    constexpr double rank = 2.0 / 64.0; ///< a word's rank among its tile's selected coordinates
    switch (phase) {
    case Phase::check:
        return value * d;
    case Phase::decode: // code to words, and words to ranks
        return static_cast<double>(setting.code) + bit * d + rank * d;
    case Phase::local_pass: // g, e and e again; two masks; m, payload, and m on the new mask
        return 3 * value * d + 2 * bit * d + 3 * value * k;
    case Phase::select: // e, or the payload where S_t has a bit; the mask, the coming one and its code
        return value * n + 2 * bit * n + value * own + static_cast<double>(setting.own_code);
    case Phase::fold:
        return value * own * (workers + 1);
    case Phase::update: // w twice, the mask, M and m
        return 2 * value * d + bit * d + 2 * value * k;
    case Phase::advance:
    case Phase::exchange:
    case Phase::reconstruct:
        break;
    }
    return 0.0;
}

double least_bytes_of_step(const Setting& setting) {
    double sum = 0.0;
    for (const Phase phase : phases)
        if (phase != Phase::check)
            sum += least_bytes(phase, setting);
    return sum;
}

distributed::Scalars LocalRank::scalars() const {
    constexpr double learning_rate = 1e-3;
    return peers::scalars_of(setting_.problem.settings, setting_.problem.workers, step_, learning_rate);
}

const std::uint8_t* LocalRank::scout(const float* gradient) {
    backend_->local_pass(scalars(), gradient);
    const std::uint8_t* code = backend_->mask_code(setting_.code);
    backend_->select(setting_.all, 0);
    return code;
}

void LocalRank::start(const std::uint8_t* code, const float* gradient) {
    backend_->local_pass(scalars(), gradient);
    copy_(backend_->mask_code(setting_.code), code, setting_.code);
    backend_->decode_mask(setting_.all);
    backend_->advance_mask();
    backend_->extract_payload();
    for (const Phase phase :
         {Phase::select, Phase::exchange, Phase::fold, Phase::reconstruct, Phase::update})
        run(phase, gradient);
}

void LocalRank::run(Phase phase, const float* gradient) {
    switch (phase) {
    case Phase::check:
        if (backend_->first_refused(gradient).index != setting_.size)
            throw std::runtime_error("the benchmark's gradient is refused");
        return;
    case Phase::decode: // the own part is what select() wrote, the others' what they were at the start
        return backend_->decode_mask(setting_.all);
    case Phase::advance:
        return backend_->advance_mask();
    case Phase::local_pass: // in which the selection begins
        backend_->hint_next_selection(setting_.own);
        return backend_->local_pass(scalars(), gradient);
    case Phase::select:
        return backend_->select(setting_.own, 0);
    case Phase::exchange: {
        const Index own = setting_.own_selected;
        auto* const received = static_cast<float*>(backend_->received(own * setting_.problem.workers));
        for (int rank = 0; rank < setting_.problem.workers; ++rank)
            copy_(received + rank * own, backend_->payload(),
                  static_cast<std::size_t>(own) * sizeof(float));
        return;
    }
    case Phase::fold: // the other owners' M stay the rank's own c
        return backend_->fold(scalars(), setting_.problem.workers, 0, setting_.own_selected);
    case Phase::reconstruct:
        return backend_->reconstruct(scalars(), setting_.problem.settings.clip_norm);
    case Phase::update:
        if (!backend_->update(setting_.problem.settings.bias_correction, scalars()).finite)
            throw std::runtime_error("the benchmark's step " + std::to_string(step_) +
                                     " made values that are not finite");
        ++step_;
        return;
    }
}

namespace {

/// A single rank does not encode its mask, so the problem gets at least two.
std::unique_ptr<distributed::scape::Backend> host_backend(problem::Problem problem,
                                                          std::span<const float> w) {
    problem.workers = std::max(problem.workers, 2);
    return distributed::scape::make_host_backend(problem, w);
}

} // namespace

Index wrong_values(const Setting& setting, const MakeBackend& make, const Copy& copy, int steps) {
    std::vector<float> w(static_cast<std::size_t>(setting.size));
    std::vector<float> g(w.size());
    const auto draw = [&](std::vector<float>& values, std::uint64_t seed) {
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = counter_value(seed, static_cast<Index>(i));
    };
    draw(w, 1);
    draw(g, 2);
    LocalRank host(setting, host_backend(setting.problem, w),
                   [](void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); });
    LocalRank tested(setting, make(setting.problem, w), copy);
    {
        LocalRank host_scout(setting, host_backend(setting.problem, w), {});
        LocalRank tested_scout(setting, make(setting.problem, w), {});
        host.start(host_scout.scout(g.data()), g.data());
        tested.start(tested_scout.scout(g.data()), g.data());
    }
    Index wrong = 0;
    for (int step = 0; step < steps; ++step) {
        draw(g, static_cast<std::uint64_t>(step) + 3);
        for (const Phase phase : phases) {
            host.run(phase, g.data());
            tested.run(phase, g.data());
        }
        wrong += wrong_bits(host.backend().parameters(), tested.backend().parameters());
        wrong += wrong_bits(host.backend().residual(), tested.backend().residual());
        wrong += wrong_bits(host.backend().packed_moment(), tested.backend().packed_moment());
        const distributed::Mask& one = host.backend().current_mask();
        const distributed::Mask& other = tested.backend().current_mask();
        for (std::size_t word = 0; word < one.word_count(); ++word)
            wrong += one.words()[word] != other.words()[word] ? 1 : 0;
    }
    return wrong;
}

} // namespace truestep::gpu::bench
