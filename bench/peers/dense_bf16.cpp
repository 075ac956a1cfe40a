// Dense AdamS (section 3) with gradients that travel as bf16, half of the bytes, to owners that add
// in fp32. Owners keep their shard of the parameters in fp32; others receive that, or its bf16.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <truestep/distributed/kernels.hpp>

#include "peers/arithmetic.hpp"
#include "peers/kinds.hpp"

namespace truestep::peers {
namespace {

namespace host = distributed::host;

class DenseBf16 final : public Peer {
  public:
    DenseBf16(const Setting& setting, Communicator& communicator, std::span<const float> parameters,
              ParameterFormat gathered)
        : hyper_(setting.hyper), communicator_(communicator), gathered_(gathered),
          ranges_(shards(setting.size, communicator.size())),
          own_(ranges_[static_cast<std::size_t>(communicator.rank())]),
          w_(parameters.begin(), parameters.end()), halves_(w_.size()),
          received_(size() * static_cast<std::size_t>(communicator.size())), m_(size(), 0.0F) {
        if (gathered_ == ParameterFormat::bf16)
            master_.assign(w_.begin() + own_.begin, w_.begin() + own_.end);
    }

    void step(std::span<const float> gradient, double learning_rate) override {
        const auto ranks = static_cast<std::size_t>(communicator_.size());
        const auto s = scalars_of(hyper_, communicator_.size(), ++steps_, learning_rate);
        for (std::size_t i = 0; i < gradient.size(); ++i)
            halves_[i] = to_bf16(gradient[i]);
        const auto by_owner = sizes_of(ranges_, sizeof(std::uint16_t));
        const std::vector<std::size_t> from_each(ranks, size() * sizeof(std::uint16_t));
        communicator_
            .start_all_to_all(Traffic::gradient, halves_.data(), by_owner, received_.data(), from_each)
            ->wait();
        float* const w = gathered_ == ParameterFormat::fp32 ? w_.data() + own_.begin : master_.data();
        for (std::size_t begin = 0; begin < size(); begin += block)
            update(s, begin, std::min(block, size() - begin), w);
        gather();
    }
    [[nodiscard]] std::span<const float> parameters() const override { return w_; }

    [[nodiscard]] State state() override {
        State state{{{"w", w_}, {"m", m_}}, {{"steps", {static_cast<std::uint64_t>(steps_)}}}};
        if (gathered_ == ParameterFormat::bf16)
            state.vectors["master"] = master_;
        return state;
    }
    void restore(const State& state) override {
        w_ = values_in(state, "w", w_.size());
        if (gathered_ == ParameterFormat::bf16)
            master_ = values_in(state, "master", master_.size());
        m_ = values_in(state, "m", m_.size());
        steps_ = count_in(state, "steps");
    }

  private:
    static constexpr std::size_t block = 4096; ///< so many means stay in the cache

    void update(const distributed::Scalars& s, std::size_t begin, std::size_t count, float* w) {
        std::array<float, block> mean; // NOLINT: written before it is read
        const std::uint16_t* part = received_.data() + begin;
        for (std::size_t i = 0; i < count; ++i)
            mean[i] = from_bf16(part[i]);
        for (int rank = 1; rank < communicator_.size(); ++rank) {
            part += size();
            for (std::size_t i = 0; i < count; ++i)
                mean[i] += from_bf16(part[i]);
        }
        for (std::size_t i = 0; i < count; ++i)
            mean[i] /= s.workers;
        static_cast<void>(host::dense(hyper_.bias_correction, s, static_cast<Index>(count), mean.data(),
                                      m_.data() + begin, w + begin));
        if (gathered_ == ParameterFormat::bf16)
            for (std::size_t i = 0; i < count; ++i)
                halves_[static_cast<std::size_t>(own_.begin) + begin + i] = to_bf16(w[begin + i]);
    }

    [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(own_.size()); }

    void gather() {
        if (gathered_ == ParameterFormat::fp32) {
            communicator_
                .start_all_gather(Traffic::parameters, w_.data() + own_.begin, w_.data(),
                                  sizes_of(ranges_, sizeof(float)))
                ->wait();
            return;
        }
        communicator_
            .start_all_gather(Traffic::parameters, halves_.data() + own_.begin, halves_.data(),
                              sizes_of(ranges_, sizeof(std::uint16_t)))
            ->wait();
        for (std::size_t i = 0; i < w_.size(); ++i)
            w_[i] = from_bf16(halves_[i]);
    }

    problem::HyperParameters hyper_;
    Communicator& communicator_;
    ParameterFormat gathered_;
    std::vector<problem::Range> ranges_;
    problem::Range own_;
    std::vector<float> w_;
    std::vector<float> master_; ///< of the own range, where w_ has only bf16
    std::vector<std::uint16_t> halves_;
    std::vector<std::uint16_t> received_;
    std::vector<float> m_;
    Index steps_ = 0;
};

} // namespace

std::unique_ptr<Peer> make_dense_bf16(const Setting& setting, Communicator& communicator,
                                      std::span<const float> parameters, ParameterFormat gathered) {
    return std::make_unique<DenseBf16>(setting, communicator, parameters, gathered);
}

} // namespace truestep::peers
