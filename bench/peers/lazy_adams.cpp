// Updates only a sparse sum's coordinates by AdamS, for peers that send positions with values.
#include "peers/lazy_adams.hpp"

#include <utility>

#include <truestep/distributed/kernels.hpp>

#include "peers/arithmetic.hpp"

namespace truestep::peers {

LazyAdamS::LazyAdamS(problem::HyperParameters hyper, std::span<const float> parameters)
    : hyper_(std::move(hyper)), w_(parameters.begin(), parameters.end()), m_(w_.size(), 0.0F),
      touched_(static_cast<Index>(w_.size())) {}

void LazyAdamS::update(std::span<const Entry> sums, int ranks, double learning_rate) {
    namespace host = distributed::host;
    const auto s = scalars_of(hyper_, ranks, ++steps_, learning_rate);
    const auto count = static_cast<Index>(sums.size());
    g_.resize(sums.size());
    last_m_.resize(sums.size());
    M_.resize(sums.size());
    touched_.clear();
    for (std::size_t i = 0; i < sums.size(); ++i) {
        float& m = m_[sums[i].index];
        touched_.set(sums[i].index);
        g_[i] = sums[i].value / s.workers;
        last_m_[i] = m;
        m = M_[i] = distributed::element::moment(s, m, g_[i]);
    }
    touched_.count();
    host::directions(hyper_.bias_correction, s, 0, count, M_.data(), last_m_.data(), g_.data(), g_.data());
    static_cast<void>(host::update(s, 0, touched_.size(), w_.data(), touched_, g_.data()));
}

State LazyAdamS::state() const {
    return {{{"w", w_}, {"m", m_}}, {{"steps", {static_cast<std::uint64_t>(steps_)}}}};
}

void LazyAdamS::restore(const State& state) {
    w_ = values_in(state, "w", w_.size());
    m_ = values_in(state, "m", m_.size());
    steps_ = count_in(state, "steps");
}

} // namespace truestep::peers
