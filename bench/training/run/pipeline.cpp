#include "pipeline.hpp"

#include <algorithm>
#include <string>

#include <truestep/distributed/mapl/replicas.hpp>
#include <truestep/distributed/mapl/spel_step.hpp>
#include <truestep/training/draw.hpp>

namespace truestep::training {

using distributed::mapl::Floats;
using problem::mapl::Side;

std::vector<std::size_t> cuts(std::size_t layers, std::size_t stages) {
    std::vector<std::size_t> behind;
    for (std::size_t stage = 1; stage < stages; ++stage)
        behind.push_back(layers * stage / stages - 1);
    return behind;
}

problem::mapl::Settings boundary_settings(const Shape& shape, const Compression& compression,
                                          std::size_t boundary, std::uint64_t seed) {
    problem::mapl::Settings settings;
    settings.width = static_cast<problem::mapl::Index>(shape.width);
    settings.rank = static_cast<problem::mapl::Index>(shape.width / compression.times);
    settings.vocabulary = static_cast<problem::mapl::Index>(shape.symbols);
    settings.anchors = problem::mapl::Anchors::two;
    // This differs from other draws: the model's first parameters use three numbers, and batches
    // never have 0 here.
    settings.seed = drawn({seed, 0, 0, boundary});
    return settings;
}

std::vector<problem::Tensor> anchor_tensors(const Plan& plan,
                                            const std::optional<Compression>& compression) {
    std::vector<problem::Tensor> tensors;
    if (!compression)
        return tensors;
    const auto size =
        static_cast<problem::Index>(plan.shape.symbols * (plan.shape.width / compression->times));
    for (std::size_t boundary = 0; boundary + 1 < plan.stages; ++boundary)
        for (const char* const side : {"sender", "receiver"})
            tensors.push_back({"boundary" + std::to_string(boundary) + "." + side, size});
    return tensors;
}

Pipeline::Pipeline(const Plan& plan, const std::optional<Compression>& compression, std::uint64_t seed,
                   const peers::Links& links)
    : compression_(compression), behind_(cuts(plan.shape.layers, plan.stages)), width_(plan.shape.width),
      replicas_(links.all) {
    if (!compression_)
        return;
    for (std::size_t boundary = 0; boundary < behind_.size(); ++boundary) {
        const problem::mapl::Settings settings =
            boundary_settings(plan.shape, *compression_, boundary, seed);
        settings_.push_back(settings);
        rows_.push_back({anchor_rows(settings, Side::sender), anchor_rows(settings, Side::receiver)});
        const Floats first = problem::mapl::first_subspace(settings.width, settings.rank, settings.seed);
        a_.insert(a_.end(), first.begin(), first.end());
    }
    kept_.resize(behind_.size());
    for (Floats* const zeros : {&m_, &senders_part_, &receivers_part_})
        zeros->resize(a_.size());
    if (compression_->subspace != Subspace::free)
        return;
    peers::Setting setting{.size = static_cast<problem::Index>(a_.size()), .hyper = plan.hyper};
    setting.hyper.weight_decay = 0; // decay towards 0 would leave the manifold
    adams_ = peers::make_peer("dense", setting, links, a_);
}

std::size_t Pipeline::boundary_behind(std::size_t layer) const {
    return static_cast<std::size_t>(std::ranges::find(behind_, layer) - behind_.begin());
}

std::size_t Pipeline::values() const {
    return width_ * rank();
}

std::size_t Pipeline::table(std::size_t boundary, Side side) const {
    const std::size_t size = static_cast<std::size_t>(settings_.front().vocabulary) * rank();
    return (2 * boundary + (side == Side::sender ? 0 : 1)) * size;
}

distributed::mapl::SideMatrices Pipeline::matrices(std::size_t boundary, Side side) const {
    const Floats& rows = side == Side::sender ? rows_[boundary].sender : rows_[boundary].receiver;
    return {width_,
            rank(),
            static_cast<std::size_t>(settings_.front().vocabulary),
            a_.data() + boundary * values(),
            anchors_.data() + table(boundary, side),
            rows.data()};
}

void Pipeline::begin(std::span<const std::uint8_t> symbols, std::span<const float> anchors,
                     std::span<float> anchor_gradients) {
    ids_.assign(symbols.begin(), symbols.end());
    anchors_ = anchors;
    anchor_gradients_ = anchor_gradients;
    std::ranges::fill(anchor_gradients_, 0.0F);
}

void Pipeline::forward(std::size_t layer, float* values) {
    const std::size_t boundary = boundary_behind(layer);
    if (boundary == behind_.size() || !compression_)
        return;
    BoundaryValues& kept = kept_[boundary];
    kept.q.resize(ids_.size() * width_);
    kept.z.resize(ids_.size() * rank());
    compress(matrices(boundary, Side::sender), ids_, values, kept.q.data(), kept.z.data());
    decompress(matrices(boundary, Side::receiver), ids_, kept.z.data(), values);
}

void Pipeline::backward(std::size_t layer, float* values) {
    const std::size_t boundary = boundary_behind(layer);
    if (boundary == behind_.size())
        return;
    const std::size_t tokens = ids_.size();
    if (!compression_) {
        sent_ += 2 * tokens * width_ * sizeof(float);
        return;
    }
    const BoundaryValues& kept = kept_[boundary];
    const distributed::mapl::SideMatrices sender = matrices(boundary, Side::sender);
    const distributed::mapl::SideMatrices receiver = matrices(boundary, Side::receiver);
    const std::size_t part = boundary * this->values();
    float* const tables = anchor_gradients_.data();
    dz_.resize(tokens * rank());
    gradient_.assign(values, values + tokens * width_);
    compress_gradient(receiver, tokens, gradient_.data(), dz_.data());
    add_receivers(receiver, ids_, kept.z.data(), gradient_.data(), receivers_part_.data() + part,
                  tables + table(boundary, Side::receiver));
    decompress_gradient(sender, tokens, dz_.data(), values);
    add_senders(sender, ids_, kept.q.data(), dz_.data(), values, senders_part_.data() + part,
                tables + table(boundary, Side::sender));
    // Section 23: Z and the ids forward, dZ back.
    sent_ += tokens * (2 * rank() * sizeof(float) + problem::mapl::id_bytes(settings_.front().vocabulary));
}

void Pipeline::end_step(double learning_rate) {
    if (!compression_ || compression_->subspace == Subspace::fixed)
        return;
    const double rate = compression_->rate * learning_rate;
    if (compression_->subspace == Subspace::mapl)
        follow_spel(rate);
    else
        follow_adams(rate);
    sent_ += 2 * a_.size() * sizeof(float); // the receivers' parts, and A
    std::ranges::fill(senders_part_, 0.0F);
    std::ranges::fill(receivers_part_, 0.0F);
}

void Pipeline::follow_spel(double rate) {
    problem::mapl::check_rate(rate);
    for (std::size_t boundary = 0; boundary < behind_.size(); ++boundary) {
        const std::size_t at = boundary * values();
        const auto of = [&](Floats& all) { return std::span(all).subspan(at, values()); };
        Floats gradient = distributed::mapl::whole_gradient(of(senders_part_), of(receivers_part_));
        distributed::mapl::mean_over(replicas_, gradient);
        Floats a(of(a_).begin(), of(a_).end());
        Floats m(of(m_).begin(), of(m_).end());
        // A refusal (false) leaves both unchanged, on all ranks.
        static_cast<void>(distributed::mapl::spel_step(settings_[boundary], gradient, rate, a, m));
        std::ranges::copy(a, of(a_).begin());
        std::ranges::copy(m, of(m_).begin());
    }
}

void Pipeline::follow_adams(double rate) {
    adams_->step(distributed::mapl::whole_gradient(senders_part_, receivers_part_), rate);
    std::ranges::copy(adams_->parameters(), a_.begin());
}

std::span<const float> Pipeline::subspace(std::size_t boundary) const {
    return std::span(a_).subspan(boundary * values(), values());
}

namespace {

// Names that no optimizer uses.
constexpr const char* a_name = "boundaries.A";
constexpr const char* m_name = "boundaries.m";
constexpr const char* sent_name = "boundaries.sent";
const std::string of_adams = "boundaries.adams.";

} // namespace

void Pipeline::add_to(peers::State& state) const {
    state.words[sent_name] = {sent_};
    if (!compression_)
        return;
    state.vectors[a_name] = a_;
    state.vectors[m_name] = m_;
    if (!adams_)
        return;
    const peers::State own = adams_->state();
    for (const auto& [name, vector] : own.vectors)
        state.vectors[of_adams + name] = vector;
    for (const auto& [name, words] : own.words)
        state.words[of_adams + name] = words;
}

void Pipeline::restore(const peers::State& state) {
    sent_ = words_in(state, sent_name, 1).front();
    if (!compression_)
        return;
    a_ = values_in(state, a_name, a_.size());
    m_ = values_in(state, m_name, m_.size());
    if (!adams_)
        return;
    peers::State own;
    for (const auto& [name, vector] : state.vectors)
        if (name.starts_with(of_adams))
            own.vectors[name.substr(of_adams.size())] = vector;
    for (const auto& [name, words] : state.words)
        if (name.starts_with(of_adams))
            own.words[name.substr(of_adams.size())] = words;
    adams_->restore(own);
}

} // namespace truestep::training
