// The sharded implementations of distributed/ for the gate.
#include <truestep/properties/scape/sharded.hpp>

#include <limits>
#include <utility>

#include <truestep/distributed/kernels.hpp>
#include <truestep/distributed/scape/adams.hpp>
#include <truestep/distributed/scape/checkpoint.hpp>
#include <truestep/distributed/scape/host_backend.hpp>
#include <truestep/distributed/scape/scape.hpp>
#include <truestep/gate/lender.hpp>
#include <truestep/problem/error.hpp>

namespace truestep::properties::scape {

namespace {

using distributed::Communicator;
using distributed::Mask;
using distributed::Traffic;
using distributed::scape::Reduction;

std::vector<std::uint8_t> bytes_of(const Mask& mask) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>((mask.size() + 7) / 8));
    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<std::uint8_t>(mask.words()[i / 8] >> (i % 8 * 8));
    return bytes;
}

StepReport told_of(const distributed::scape::Statistics& statistics) {
    return {statistics.step,          statistics.selected,    statistics.kept,
            statistics.gradient_norm, statistics.clip_factor, statistics.sent};
}

std::vector<float> copy_of(std::span<const float> values) {
    return {values.begin(), values.end()};
}

class ScapeCandidate : public RankUnderTest {
  public:
    ScapeCandidate(const Setup& setup, std::unique_ptr<distributed::scape::Backend> backend,
                   Reduction reduction, Communicator& communicator)
        : communicator_(communicator),
          // The second way to split the work exchanges payloads in pieces, too.
          optimizer_(setup.problem, setup.ranges, setup.density, std::move(backend), communicator,
                     {reduction, setup.variant == 1 ? 5 + setup.problem.layout.size() / 16 : 0}) {}

    void step(std::span<const float> gradient, double learning_rate) override {
        if (std::exchange(has_buckets_, false)) // of this gradient, where it stands
            return optimizer_.step(gradient, learning_rate);
        try {
            lender_.lend_after_too_many(
                gradient, [&](std::span<const float> lent) { optimizer_.step(lent, learning_rate); });
        } catch (const distributed::scape::Halted&) {
            must_stay_halted(gradient, learning_rate);
            throw;
        }
    }
    void accumulate(std::span<const float> gradient) override {
        lender_.lend_after_too_many(gradient,
                                    [&](std::span<const float> lent) { optimizer_.accumulate(lent); });
        must_refuse_a_state();
    }
    void bucket(std::span<const std::size_t> tensors, std::span<const float> gradient) override {
        has_buckets_ = true;
        optimizer_.bucket(tensors, gradient);
    }
    ObservedState view() override {
        return {optimizer_.steps(),          copy_of(optimizer_.parameters()),
                optimizer_.moment(),         copy_of(optimizer_.residual()),
                bytes_of(optimizer_.mask()), told_of(optimizer_.statistics())};
    }
    std::vector<std::uint8_t> coming() override { return bytes_of(optimizer_.coming_mask()); }
    void save(const std::filesystem::path& folder) override {
        static_cast<void>(distributed::scape::save_checkpoint(optimizer_, communicator_, folder));
    }
    void restore(const std::filesystem::path& folder) override {
        const auto latest = distributed::scape::latest_checkpoint(folder);
        if (!latest)
            throw Error(folder.string() + " holds no checkpoint");
        distributed::scape::restore_checkpoint(optimizer_, communicator_, *latest);
    }
    void begin_at(const InitialState& begun) override {
        distributed::scape::RankState state = optimizer_.state();
        state.step = begun.step;
        state.residual = begun.residual[static_cast<std::size_t>(communicator_.rank())];
        state.coming.clear();
        for (Index index = 0; index < state.coming.size(); ++index)
            if (((begun.mask[static_cast<std::size_t>(index / 8)] >> static_cast<unsigned>(index % 8)) &
                 1U) != 0)
                state.coming.set(index);
        state.coming.count();
        if (!begun.moment.empty()) {
            state.current.set_range(0, state.current.size());
            state.current.count();
            state.packed_moment = begun.moment;
        }
        optimizer_.restore(state);
    }

  protected:
    distributed::scape::Scape& optimizer() { return optimizer_; }

  private:
    /// A restore that is refused changes nothing: nor the parts so far, nor that it has halted.
    void must_refuse_a_state() {
        const std::vector<float> bad(optimizer_.parameters().size(),
                                     std::numeric_limits<float>::quiet_NaN());
        const Mask nothing(static_cast<Index>(bad.size()));
        gate::must_refuse(
            [&] {
                optimizer_.restore({0, bad, bad, {}, nothing, nothing});
            },
            "restore() takes parameters that are not finite");
    }
    void must_stay_halted(std::span<const float> gradient, double learning_rate) {
        must_refuse_a_state();
        try {
            optimizer_.step(gradient, learning_rate);
        } catch (const distributed::scape::Halted&) {
            return;
        }
        throw Error("a refused restore lets a halted run go on");
    }

    Communicator& communicator_;
    gate::Lender lender_;
    bool has_buckets_ = false;
    distributed::scape::Scape optimizer_;
};

/// Gives each step a copy of the gradient that it may consume.
class UsingUpCandidate final : public ScapeCandidate {
  public:
    using ScapeCandidate::ScapeCandidate;

    void step(std::span<const float> gradient, double learning_rate) override {
        distributed::AlignedFloats copy(gradient.begin(), gradient.end());
        optimizer().step_using_up(copy, learning_rate);
    }
};

class AdamSCandidate final : public RankUnderTest {
  public:
    AdamSCandidate(const Setup& setup, Communicator& communicator)
        : ranges_(setup.ranges), size_(setup.parameters.size()), communicator_(communicator),
          optimizer_(setup.problem, setup.ranges, setup.parameters, communicator, {}) {}

    void step(std::span<const float> gradient, double learning_rate) override {
        optimizer_.step(gradient, learning_rate);
    }
    /// The moment is gathered from the shards.
    ObservedState view() override {
        std::vector<std::size_t> sizes;
        for (const problem::Range& range : ranges_)
            sizes.push_back(static_cast<std::size_t>(range.size()) * sizeof(float));
        std::vector<float> moment(size_);
        communicator_
            .start_all_gather(Traffic::agreement, optimizer_.shard_moment().data(), moment.data(), sizes)
            ->wait();
        return {optimizer_.steps(), copy_of(optimizer_.parameters()),
                std::move(moment),  std::vector<float>(size_, 0.0F),
                coming(),           told_of(optimizer_.statistics())};
    }
    std::vector<std::uint8_t> coming() override {
        Mask full(static_cast<Index>(size_));
        full.set_range(0, full.size());
        return bytes_of(full);
    }
    void save(const std::filesystem::path&) override { throw Error("sharded AdamS saves no checkpoints"); }
    void restore(const std::filesystem::path&) override {
        throw Error("sharded AdamS restores no checkpoints");
    }

  private:
    std::vector<problem::Range> ranges_;
    std::size_t size_;
    Communicator& communicator_;
    distributed::scape::AdamS optimizer_;
};

/// The first variant is the users' one; the others split the same work otherwise.
struct HostVariant {
    std::string name;
    int threads;
    distributed::host::Variant kernels;
};

const std::vector<HostVariant>& host_variants() {
    static const std::vector<HostVariant> all = [] {
        using namespace distributed::host;
        const auto supported = supported_variants();
        const auto label = [](int threads, Variant kernels) {
            return std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") +
                   std::string(distributed::host::name(kernels)) + " kernels";
        };
        std::vector<HostVariant> result{{label(1, supported.back()), 1, supported.back()},
                                        {label(3, supported.back()), 3, supported.back()}};
        for (const Variant kernels : supported)
            if (kernels != supported.back())
                result.push_back({label(1, kernels), 1, kernels});
        static_cast<void>(
            distributed::host::variant()); // a wrong name of kernels is an error now, not in each case
        return result;
    }();
    return all;
}

std::vector<std::string> names(const std::vector<HostVariant>& variants) {
    std::vector<std::string> result;
    result.reserve(variants.size());
    for (const HostVariant& variant : variants)
        result.push_back(variant.name);
    return result;
}

template <class Kind>
MakeRank host_maker(Reduction reduction) {
    return [reduction](const Setup& setup, Communicator& communicator) {
        const HostVariant& variant = host_variants().at(setup.variant);
        if (distributed::host::variant() != variant.kernels)
            distributed::host::use_variant(variant.kernels);
        // In every case and property some ranks share their work out.
        const int threads = setup.variant == 0 && communicator.rank() % 3 == 1 ? 2 : variant.threads;
        return std::make_unique<Kind>(
            setup, distributed::scape::make_host_backend(setup.problem, setup.parameters, threads),
            reduction, communicator);
    };
}

} // namespace

std::unique_ptr<RankUnderTest> truestep_candidate(const Setup& setup,
                                                  std::unique_ptr<distributed::scape::Backend> backend,
                                                  distributed::scape::Reduction reduction,
                                                  distributed::Communicator& communicator) {
    return std::make_unique<ScapeCandidate>(setup, std::move(backend), reduction, communicator);
}

std::vector<std::shared_ptr<const Implementation>>
all_implementations(const std::shared_ptr<const Group>& group) {
    constexpr Index million = 1'000'000;
    constexpr Index ten_million = 10 * million;
    const bool threads = group->name() == "in_process"; // else every process has all ranks' history
    std::vector<std::shared_ptr<const Implementation>> all;
    if (threads)
        all.push_back(reference_implementation());
    all.push_back(on_ranks({.name = "host",
                            .variants = names(host_variants()),
                            .make = host_maker<ScapeCandidate>(Reduction::ordered),
                            .takes_parts = true,
                            .rounds_payloads = true,
                            .adds_groups = true,
                            .compares_starts = true,
                            .names_differences = true,
                            .takes_states = true,
                            .shares_folders = true,
                            .most_parameters = threads ? ten_million : million},
                           group));
    all.push_back(on_ranks({.name = "host-using-up",
                            .variants = names(host_variants()),
                            .make = host_maker<UsingUpCandidate>(Reduction::ordered),
                            .like = "host",
                            .takes_parts = true,
                            .rounds_payloads = true,
                            .compares_starts = true,
                            .names_differences = true,
                            .takes_states = true,
                            .shares_folders = true},
                           group));
    all.push_back(on_ranks({.name = "host-native",
                            .level = verify::LevelKind::rel,
                            .variants = names(host_variants()),
                            .make = host_maker<ScapeCandidate>(Reduction::native),
                            .like = "host",
                            .takes_parts = true,
                            .compares_starts = true,
                            .names_differences = true,
                            .shares_folders = true,
                            .most_parameters = threads ? million : usual_parameters},
                           group));
    for (auto& ranked : on_devices(*group))
        all.push_back(on_ranks(std::move(ranked), group));
    all.push_back(on_ranks({.name = "host-adams",
                            .algorithm = problem::Algorithm::adams,
                            .make =
                                [](const Setup& setup, Communicator& communicator) {
                                    return std::make_unique<AdamSCandidate>(setup, communicator);
                                },
                            .compares_starts = true,
                            .names_differences = true},
                           group));
    return all;
}

} // namespace truestep::properties::scape
