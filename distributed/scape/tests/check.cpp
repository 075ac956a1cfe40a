// Runs SCAPE or AdamS on ranks, records a trace, and verifies it against the reference.
#include "check.hpp"

#include <bit>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <truestep/distributed/scape/adams.hpp>
#include <truestep/distributed/scape/host_backend.hpp>
#include <truestep/verify/scape/trace.hpp>

namespace truestep::distributed::scape {

namespace {

using verify::scape::Coordinates;
using verify::scape::PerRank;
using verify::scape::StepResults;
using verify::scape::TraceHead;
using verify::scape::Vector;

std::vector<float> initial_parameters(const CheckSetting& setting) {
    return problem::initial_parameters(setting.data, setting.seed, setting.problem.layout.size());
}

Vector<float> to_vector(std::span<const float> values) {
    return Eigen::Map<const Vector<float>>(values.data(), static_cast<Index>(values.size()));
}

Coordinates to_coordinates(const Mask& mask) {
    Coordinates coordinates;
    for (Index index = 0; index < mask.size(); ++index)
        if (mask.test(index))
            coordinates.push_back(index);
    return coordinates;
}

/// All ranks' vectors, on every rank.
PerRank<float> gather(Communicator& communicator, std::span<const float> mine) {
    const auto ranks = static_cast<std::size_t>(communicator.size());
    std::vector<float> all(mine.size() * ranks);
    const std::vector<std::size_t> sizes(ranks, mine.size_bytes());
    communicator.start_all_gather(Traffic::agreement, mine.data(), all.data(), sizes)->wait();
    PerRank<float> result;
    for (std::size_t rank = 0; rank < ranks; ++rank)
        result.push_back(to_vector({all.data() + rank * mine.size(), mine.size()}));
    return result;
}

/// A number that represents bits.
class Digest {
  public:
    void add(std::uint64_t bits) {
        value_ = (value_ ^ bits) * 0x9e37'79b9'7f4a'7c15U;
        value_ ^= value_ >> 29U;
    }
    void add(std::span<const float> values) {
        for (const float value : values)
            add(std::bit_cast<std::uint32_t>(value));
    }
    [[nodiscard]] std::uint64_t value() const { return value_; }

  private:
    std::uint64_t value_ = 0x243f'6a88'85a3'08d3U;
};

/// One rank of an implementation, as the check drives it.
class Driver {
  public:
    virtual ~Driver() = default;
    virtual void step(const std::vector<float>& gradient, double learning_rate) = 0;
    /// The state after the last step, with all ranks' residuals, without the coming mask. All ranks
    /// call it.
    virtual StepResults<float> results() = 0;
    /// The coming mask; waits for it.
    virtual Coordinates coming() = 0;
    /// A digest of everything that must be the same on all ranks.
    virtual std::uint64_t replica() = 0;
};

class ScapeDriver final : public Driver {
  public:
    ScapeDriver(const CheckSetting& setting, Communicator& communicator)
        : communicator_(communicator),
          optimizer_(setting.problem,
                     problem::ranges(setting.problem.layout, setting.problem.workers, setting.partition),
                     setting.density,
                     make_host_backend(setting.problem, initial_parameters(setting), setting.threads),
                     communicator, {setting.reduction, setting.largest_piece}) {}

    void step(const std::vector<float>& gradient, double learning_rate) override {
        optimizer_.step(gradient, learning_rate);
    }

    StepResults<float> results() override {
        StepResults<float> results;
        results.mask = to_coordinates(optimizer_.mask());
        results.residual = gather(communicator_, optimizer_.residual());
        results.first_moment = to_vector(optimizer_.moment());
        results.parameters = to_vector(optimizer_.parameters());
        return results;
    }

    Coordinates coming() override { return to_coordinates(optimizer_.coming_mask()); }

    std::uint64_t replica() override {
        Digest digest;
        digest.add(optimizer_.parameters());
        digest.add(optimizer_.moment());
        for (std::size_t word = 0; word < optimizer_.mask().word_count(); ++word)
            digest.add(optimizer_.mask().words()[word]);
        return digest.value();
    }

  private:
    Communicator& communicator_;
    Scape optimizer_;
};

class AdamSDriver final : public Driver {
  public:
    AdamSDriver(const CheckSetting& setting, Communicator& communicator)
        : communicator_(communicator),
          ranges_(problem::ranges(setting.problem.layout, setting.problem.workers, setting.partition)),
          optimizer_(setting.problem, ranges_, initial_parameters(setting), communicator,
                     {setting.reduction, setting.largest_piece}) {
        for (Index index = 0; index < setting.problem.layout.size(); ++index)
            everywhere_.push_back(index);
    }

    void step(const std::vector<float>& gradient, double learning_rate) override {
        optimizer_.step(gradient, learning_rate);
    }

    StepResults<float> results() override {
        StepResults<float> results;
        results.mask = everywhere_;
        std::vector<std::size_t> sizes;
        for (const problem::Range& range : ranges_)
            sizes.push_back(static_cast<std::size_t>(range.size()) * sizeof(float));
        std::vector<float> moment(everywhere_.size());
        communicator_
            .start_all_gather(Traffic::agreement, optimizer_.shard_moment().data(), moment.data(), sizes)
            ->wait();
        results.first_moment = to_vector(moment);
        results.parameters = to_vector(optimizer_.parameters());
        return results;
    }

    Coordinates coming() override { return everywhere_; }

    std::uint64_t replica() override {
        Digest digest;
        digest.add(optimizer_.parameters());
        return digest.value();
    }

  private:
    Communicator& communicator_;
    std::vector<problem::Range> ranges_;
    AdamS optimizer_;
    Coordinates everywhere_;
};

std::unique_ptr<Driver> make_driver(const CheckSetting& setting, Communicator& communicator) {
    if (setting.problem.algorithm == problem::Algorithm::adams)
        return std::make_unique<AdamSDriver>(setting, communicator);
    return std::make_unique<ScapeDriver>(setting, communicator);
}

TraceHead make_head(const CheckSetting& setting, const Communicator& communicator) {
    TraceHead head{"sharded host implementation, " + std::string(name(setting.reduction)) + " reduction, " +
                       communicator.name() + " communicator",
                   setting.problem,
                   std::vector<double>(static_cast<std::size_t>(setting.steps), setting.learning_rate),
                   {},
                   initial_parameters(setting)};
    for (Index step = 1; step <= setting.steps + 1; ++step)
        head.density.push_back(
            setting.problem.algorithm == problem::Algorithm::adams ? 1.0 : setting.density.at(step));
    return head;
}

/// The gradient of one rank, in full length.
std::vector<float> make_gradient(const CheckSetting& setting, int rank, Index step) {
    std::vector<float> gradient;
    for (Index index = 0; index < setting.problem.layout.size(); ++index)
        gradient.push_back(gradient_value(setting.data, setting.seed, rank, step, index));
    return gradient;
}

/// Writes steps one behind: the mask that a step made is read when the next step uses it, so that
/// the implementation need not wait for it.
class LateWriter {
  public:
    LateWriter(const std::filesystem::path& path, const TraceHead& head) : writer_(path, head, false) {}

    void add(PerRank<float> gradients, StepResults<float> results) {
        flush(results.mask);
        gradients_ = std::move(gradients);
        results_ = std::move(results);
    }
    void finish(const Coordinates& coming) {
        flush(coming);
        writer_.finish();
    }

  private:
    void flush(const Coordinates& next) {
        if (!results_)
            return;
        results_->next_mask = next;
        writer_.write_step(gradients_, *results_);
        results_.reset();
    }

    verify::scape::TraceWriter writer_;
    PerRank<float> gradients_;
    std::optional<StepResults<float>> results_;
};

std::string find_drift(Communicator& communicator, Index step, std::uint64_t mine) {
    const auto all = gather_records(communicator, mine);
    for (std::size_t rank = 1; rank < all.size(); ++rank)
        if (all[rank] != all[0])
            return "step " + std::to_string(step) + ": w, m or mask of rank " + std::to_string(rank) +
                   " is not that of rank 0";
    return {};
}

} // namespace

CheckOutcome run_and_record(const CheckSetting& setting, Communicator& communicator,
                            const std::filesystem::path& trace) {
    CheckOutcome outcome;
    const auto driver = make_driver(setting, communicator);
    std::optional<LateWriter> writer;
    if (communicator.rank() == 0)
        writer.emplace(trace, make_head(setting, communicator));
    using Clock = std::chrono::steady_clock;
    for (Index step = 1; step <= setting.steps; ++step) {
        const std::vector<float> gradient = make_gradient(setting, communicator.rank(), step);
        const auto begin = Clock::now();
        driver->step(gradient, setting.learning_rate);
        outcome.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
        if (outcome.replica_drift.empty())
            outcome.replica_drift = find_drift(communicator, step, driver->replica());
        StepResults<float> results = driver->results();
        PerRank<float> gradients = gather(communicator, gradient);
        if (writer)
            writer->add(std::move(gradients), std::move(results));
    }
    const Coordinates coming = driver->coming();
    if (writer)
        writer->finish(coming);
    return outcome;
}

CheckOutcome check_sharded(const CheckSetting& setting, Communicator& communicator,
                           const std::filesystem::path& trace) {
    CheckOutcome outcome = run_and_record(setting, communicator, trace);
    if (communicator.rank() == 0) {
        verify::VerifyOptions options;
        // The bound of a free run grows with every step until it proves nothing; one step's does
        // not.
        options.from = setting.reduction == Reduction::ordered ? verify::ReferenceStart::start
                                                               : verify::ReferenceStart::recorded;
        options.level = verify::parse_trace_level(std::string(level(setting.reduction)));
        outcome.verdict = verify::scape::verify_trace(trace, options);
    }
    return outcome;
}

} // namespace truestep::distributed::scape
