// Runs GASLoC's inner steps, drift and gossip on the CPU with several threads.
#include <truestep/distributed/gasloc/host_backend.hpp>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include <truestep/distributed/kernels.hpp>
#include <truestep/distributed/workers.hpp>
#include <truestep/problem/tunable.hpp>

namespace truestep::distributed::gasloc {

namespace {

namespace host = distributed::host;
using Floats = std::vector<float>;

/// How much is folded at a time while more arrives, and the unit that threads share; both fit into
/// a cache.
constexpr Index most_at_once = problem::tunable<Index>("fold_piece");
constexpr Index unit = problem::tunable<Index>("fold_unit");

/// A vector that neighbours may be reading in their own threads.
struct Shared {
    explicit Shared(std::size_t size) : values(size) {}
    Floats values;
    std::atomic<int> readers{0};
};
using SharedVector = std::shared_ptr<Shared>;

class HostBackend final : public Backend {
  public:
    explicit HostBackend(int threads) : workers_(threads) {}

    void begin(State state, Momentum momentum) override {
        momentum_ = momentum;
        m_ = std::move(state.m);
        m_now_.resize(m_.size());
        v_ = std::move(state.v);
        v_now_.resize(v_.size());
        // Callers may hold pointers to these, so their memory must not move.
        theta_.resize(state.theta.size());
        std::ranges::copy(state.theta, theta_.begin());
        if (momentum_ == Momentum::gossiped) {
            before_z_ = std::move(state.before);
        } else {
            before_ = unused();
            std::ranges::copy(state.before, before_->values.begin());
        }
        x_ = unused();
    }

    bool inner(distributed::InnerRule rule, const distributed::Scalars& scalars, bool first,
               const float* gradient) override {
        const host::InnerStep vectors{gradient,
                                      first ? theta_.data() : x_->values.data(),
                                      first ? m_.data() : m_now_.data(),
                                      first ? v_.data() : v_now_.data(),
                                      x_->values.data(),
                                      m_now_.data(),
                                      v_now_.data()};
        return everywhere(0, size(), [&](Index begin, Index end) {
            return host::inner(rule, scalars, begin, end, vectors);
        });
    }

    void make_y(bool drifts, float eta) override {
        if (!drifts) {
            std::copy(theta_.begin(), theta_.end(), x_->values.begin());
            return;
        }
        everywhere(0, size(), [&](Index begin, Index end) {
            host::drift(eta, begin, end, theta_.data(), x_->values.data());
            return true;
        });
    }

    /// The last reader's release comes before the next write here; use_count() would not ensure
    /// that.
    std::shared_ptr<const void> lend_y() override {
        x_->readers.fetch_add(1, std::memory_order_relaxed);
        return {x_->values.data(),
                [y = x_](const void*) { y->readers.fetch_sub(1, std::memory_order_release); }};
    }

    bool gossip(const distributed::Gossip& gossip, Index begin, Index end) override {
        return everywhere(begin, end, [&](Index first, Index last) {
            return host::gossip(gossip, first, last, x_->values.data(), before().data(), theta_.data());
        });
    }

    Index piece() const override { return most_at_once; }

    void end_round(bool keeps) override {
        if (keeps) {
            std::swap(m_, m_now_);
            std::swap(v_, v_now_);
        }
        if (momentum_ == Momentum::local)
            before_ = x_;
        x_ = nullptr;
        x_ = unused();
    }

    std::span<const float> parameters(bool of_x) override { return of_x ? x_->values : theta_; }
    const float* in_place(bool of_x) override { return parameters(of_x).data(); }
    State state() override { return {0, 0, theta_, before(), m_, v_}; }

  private:
    [[nodiscard]] Index size() const { return static_cast<Index>(theta_.size()); }
    [[nodiscard]] Floats& before() { return momentum_ == Momentum::gossiped ? before_z_ : before_->values; }

    /// Runs a pass in parts that the threads share. False if one of the parts returns false.
    template <class Pass>
    bool everywhere(Index begin, Index end, const Pass& pass) {
        if (workers_.threads() == 1)
            return pass(begin, end);
        std::atomic<bool> good{true};
        const Index units = (end - begin + unit - 1) / unit;
        workers_.run([&](int part) {
            const Index shares = workers_.threads();
            const Index first = begin + units * part / shares * unit;
            const Index last = std::min(end, begin + units * (part + 1) / shares * unit);
            if (first < last && !pass(first, last))
                good = false;
        });
        return good;
    }

    [[nodiscard]] SharedVector unused() {
        for (const SharedVector& vector : pool_)
            if (vector != before_ && vector != x_ && vector->readers.load(std::memory_order_acquire) == 0)
                return vector;
        pool_.push_back(std::make_shared<Shared>(theta_.size()));
        return pool_.back();
    }

    distributed::Workers workers_;
    Momentum momentum_ = Momentum::local;
    Floats theta_;
    Floats before_z_;     ///< placement gossiped
    SharedVector before_; ///< placement local: the last y
    SharedVector x_;      ///< of this round; y when it ends
    std::vector<SharedVector> pool_;
    /// The moments when the round began, and those during it: a skipped round changes nothing.
    Floats m_, m_now_, v_, v_now_;
};

} // namespace

std::unique_ptr<Backend> make_host_backend(int threads) {
    return std::make_unique<HostBackend>(threads);
}

} // namespace truestep::distributed::gasloc
