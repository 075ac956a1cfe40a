// Builds a MAPL run from a case: stages, synthetic values, dyadic subspaces and schedules.
#include "scenario.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include <truestep/gate/changed_setting.hpp>
#include <truestep/problem/data.hpp>
#include <truestep/problem/mix64.hpp>

namespace truestep::properties::mapl {

namespace {

using problem::mix64;

std::uint64_t drawn(const Case& run, std::uint64_t what, Index step, Index micro, Index index) {
    std::uint64_t value = mix64(static_cast<std::uint64_t>(run.seed) + 1);
    for (const std::uint64_t part : {what, static_cast<std::uint64_t>(step),
                                     static_cast<std::uint64_t>(micro), static_cast<std::uint64_t>(index)})
        value = mix64(value ^ (part + 0x9e3779b97f4a7c15U));
    return value;
}

enum What : std::uint64_t {
    of_activations = 1000,
    of_gradients = 2000,
    of_anchors = 3000,
    of_ids = 4000,
    of_parameters = 5000,
    of_parameter_gradients = 6000
};

class MadeUp final : public Stage {
  public:
    MadeUp(const Case& run, int stage)
        : run_(run), stage_(static_cast<std::uint64_t>(stage)),
          parameters_(synthetic(run, of_parameters + stage_, 0, 0, run.width + 1)),
          summed_(parameters_.size(), 0.0F) {}
    Floats forward(Index step, Index micro, const Floats&) override {
        Floats x = synthetic(run_, of_activations + stage_, step, micro,
                             tokens_of(run_, step, micro) * run_.width);
        if (run_.dyadic() && run_.payload == Payload::bf16) // too fine for bf16 to hold all of Z
            for (std::size_t i = 0; i < x.size(); ++i)
                x[i] += static_cast<float>(i % 5) / 64.0F;
        return x;
    }
    Floats backward(Index step, Index micro, const Floats&) override {
        const Floats more = synthetic(run_, of_parameter_gradients + stage_, step, micro, run_.width + 1);
        for (std::size_t i = 0; i < more.size(); ++i)
            summed_[i] += more[i];
        return synthetic(run_, of_gradients + stage_, step, micro,
                         tokens_of(run_, step, micro) * run_.width);
    }
    Floats parameter_gradient(Index) override {
        return std::exchange(summed_, Floats(parameters_.size(), 0.0F));
    }
    Floats parameters() override { return parameters_; }
    void set_parameters(std::span<const float> trained) override {
        parameters_.assign(trained.begin(), trained.end());
    }

  private:
    Case run_;
    std::uint64_t stage_;
    Floats parameters_; ///< do not affect what the stage sends
    Floats summed_;
};

class SendsFirst final : public Stage {
  public:
    using Given = std::function<Floats(Index micro)>;
    SendsFirst(std::unique_ptr<Stage> inner, Given given)
        : inner_(std::move(inner)), given_(std::move(given)) {}
    Floats forward(Index step, Index micro, const Floats& arrived) override {
        return step == 0 ? given_(micro) : inner_->forward(step, micro, arrived);
    }
    Floats backward(Index step, Index micro, const Floats& gradient) override {
        return inner_->backward(step, micro, gradient);
    }

  private:
    std::unique_ptr<Stage> inner_;
    Given given_;
};

} // namespace

Floats synthetic(const Case& run, std::uint64_t what, Index step, Index micro, Index count) {
    Floats values(static_cast<std::size_t>(count));
    if (!run.dyadic() && run.data != DataClass::normal) { // a micro-batch is as another rank
        problem::fill_gradient(values, run.data, static_cast<std::uint64_t>(run.seed) * 1'000'003U + what,
                               static_cast<int>(micro), step);
        return values;
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
        std::uint64_t bits = drawn(run, what, step, micro, static_cast<Index>(i));
        if (run.dyadic()) {
            values[i] = static_cast<float>(static_cast<int>(bits % 17) - 8) / 4.0F;
            continue;
        }
        // Independent of each other, which the properties of many steps need, unlike gradients of ranks.
        double sum = -2.0; // of four: near enough to a normal distribution
        for (int part = 0; part < 4; ++part, bits >>= 16U)
            sum += static_cast<double>(bits & 0xffffU) * 0x1p-16;
        values[i] = static_cast<float>(sum);
    }
    return values;
}

Floats dyadic_subspace(Index width, Index rank, std::uint64_t seed) {
    const auto d = static_cast<std::size_t>(width);
    const auto r = static_cast<std::size_t>(rank);
    std::vector<std::size_t> places(d);
    for (std::size_t i = 0; i < d; ++i)
        places[i] = i;
    for (std::size_t i = d; i > 1; --i)
        std::swap(places[i - 1], places[mix64(seed + i) % i]);
    Floats a(d * r, 0.0F);
    for (std::size_t column = 0; column < r; ++column) {
        const std::size_t block = column / 4 * 4;
        const float sign = mix64(seed + 99 + column) % 2 == 0 ? 1.0F : -1.0F;
        if (block + 4 > d) { // no room for four rows
            a[places[column] * r + column] = sign;
            continue;
        }
        for (std::size_t row = 0; row < 4; ++row) {
            const std::size_t both = row & (column - block);
            const bool odd = ((both ^ (both >> 1U)) & 1U) != 0;
            a[places[block + row] * r + column] = odd ? -0.5F * sign : 0.5F * sign;
        }
    }
    return a;
}

Floats dyadic_codebooks(const Settings& settings, std::uint64_t seed) {
    const Codebooks shape = codebooks_of(settings);
    Floats values(shape.size(), 0.0F);
    for (std::size_t book = 0; book < shape.books; ++book)
        for (std::size_t i = shape.at(book, 1); i < shape.at(book + 1, 0); ++i)
            values[i] = static_cast<float>(static_cast<int>(mix64(seed + 7777 + i) % 9) - 4) * 0.5F;
    return values;
}

std::unique_ptr<Stage> made_up_stage(const Case& run, int stage) {
    return std::make_unique<MadeUp>(run, stage);
}

std::unique_ptr<Stage> sends_first(std::unique_ptr<Stage> stage, std::function<Floats(Index)> given) {
    return std::make_unique<SendsFirst>(std::move(stage), std::move(given));
}

std::vector<int> Scenario::ranks_of(int of_stage) const {
    std::vector<int> ranks;
    for (int rank = of_stage; rank < run.ranks(); rank += workers())
        ranks.push_back(rank);
    return ranks;
}

std::vector<int> Scenario::senders() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < run.ranks(); ++rank)
        if (stage_of(rank) < boundaries())
            ranks.push_back(rank);
    return ranks;
}

std::optional<double> Scenario::flawed_rate(int replica) const {
    const double impossible = std::array{static_cast<double>(not_finite(run)), -0x1p-20,
                                         0.52}[static_cast<std::size_t>(run.seed) % 3];
    if (flaw == Flaw::rate_impossible)
        return impossible;
    if (flaw != Flaw::rate_of_one_replica)
        return std::nullopt;
    if (replica + 1 < run.replicas)
        return rate_of(0);
    return run.seed / 2 % 2 == 0 ? impossible : std::nextafter(rate_of(0), 1.0);
}

Floats Scenario::as_large(int rank, Index step, Floats made) const {
    if (step == overflows && replica_of(rank) + 1 == run.replicas)
        for (float& value : made)
            value *= 0x1p100F;
    return made;
}

Scenario scenario_of(const Case& run) {
    Scenario scenario;
    scenario.run = run;
    scenario.settings = [run](Index boundary, Side) {
        Settings settings = settings_of(run);
        settings.seed += static_cast<std::uint64_t>(boundary) * 7;
        return settings;
    };
    scenario.state = [run, settings = scenario.settings](Index boundary, Side side) {
        const Settings of = settings(boundary, side);
        const auto seed = static_cast<std::uint64_t>(run.seed * 31 + boundary);
        const bool other = run.anchors == Anchors::two && side == Side::receiver;
        const Floats table =
            run.anchors == Anchors::none
                ? Floats()
                : synthetic(run, of_anchors + (other ? 1U : 0U), boundary, 0, run.vocabulary * run.rank);
        EndState state = first_state(of, side,
                                     run.dyadic() ? dyadic_subspace(run.width, run.rank, seed)
                                                  : first_subspace(run.width, run.rank, seed),
                                     table);
        if (run.dyadic() && run.anchors != Anchors::none) {
            const Floats columns = dyadic_subspace(run.width, run.rank, seed + (other ? 2000 : 1000));
            const auto d = static_cast<std::size_t>(run.width);
            const auto r = static_cast<std::size_t>(run.rank);
            state.rows.resize(columns.size());
            for (std::size_t i = 0; i < columns.size(); ++i)
                state.rows[i % r * d + i / r] = columns[i];
        }
        if (run.dyadic() && run.codewords > 0)
            state.codebooks = dyadic_codebooks(of, seed);
        return state;
    };
    scenario.ids = [run](Index step, Index micro) {
        std::vector<Id> ids(static_cast<std::size_t>(tokens_of(run, step, micro)));
        const auto vocabulary = static_cast<std::uint64_t>(run.vocabulary);
        for (std::size_t token = 0; token < ids.size(); ++token) {
            const std::uint64_t bits = drawn(run, of_ids, step, micro, static_cast<Index>(token));
            // Often the greatest id, and ids that repeat.
            ids[token] =
                static_cast<Id>(bits % 3 == 0   ? vocabulary - 1
                                : bits % 3 == 1 ? (bits >> 8U) % std::min<std::uint64_t>(vocabulary, 3)
                                                : (bits >> 8U) % vocabulary);
        }
        return ids;
    };
    scenario.stage = [run](int stage) { return made_up_stage(run, stage); };
    // On dyadic data some runs keep A, so that all their steps are exact.
    scenario.rate = run.dyadic() ? (run.seed % 2 == 0 ? 0.0625 : 0.0) : 0.05;
    scenario.anchor_rate = run.dyadic() ? 0.125 : 0.1;
    scenario.learning_rate = 0.05;
    return scenario;
}

/// The disturbance for ranks whose messages are held back.
distributed::PeerDisturbance held_back(const Scenario& scenario) {
    distributed::PeerDisturbance disturbance;
    for (const auto traffic : {distributed::Traffic::payload, distributed::Traffic::gradient,
                               distributed::Traffic::parameters}) {
        const auto kind = static_cast<std::size_t>(traffic);
        disturbance.late_start.at(kind) = 3;
        disturbance.hold_back.at(kind) = true;
    }
    // Waiting takes time, so only in a few cases a rank is late, too.
    if (scenario.run.seed % 8 == 0)
        disturbance.delay_from.assign(static_cast<std::size_t>(scenario.run.seed % scenario.run.ranks()) +
                                          1,
                                      std::chrono::milliseconds(1));
    return disturbance;
}

float not_finite(const Case& run) {
    constexpr std::array all{0x7f80'0000U, 0xff80'0000U, 0x7fc0'0000U, 0x7fff'ffffU, 0x7f80'0001U};
    return std::bit_cast<float>(all[static_cast<std::size_t>(run.seed) / 4 % all.size()]);
}

constexpr float nearly_too_large = 0x1.FFp127F;

Floats too_large(const Case& run, Floats values, const Floats& subspace) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(run.width); ++i)
        values[i] = nearly_too_large * subspace[i * static_cast<std::size_t>(run.rank)];
    return values;
}

void add_large_codeword(Scenario& scenario) {
    scenario.other_start = [shape = codebooks_of(settings_of(scenario.run))](int, Side, EndState& state) {
        float* const word = state.codebooks.data() + shape.at(0, 1);
        std::fill_n(word, shape.width, 0.0F);
        *word = nearly_too_large;
    };
}

std::string change_a_setting(const Case& run, Settings& settings) {
    const std::set<std::string> of_codewords{"groups", "rounds", "subsets", "decay"};
    return gate::change_one_setting(settings, static_cast<std::size_t>(run.seed),
                                    run.codewords > 0 ? std::set<std::string>() : of_codewords);
}

std::vector<Turn> turns(Schedule schedule, int stage, int stages, Index micro_batches) {
    std::vector<Turn> all;
    if (schedule == Schedule::gpipe) {
        for (Index micro = 0; micro < micro_batches; ++micro)
            all.push_back({true, micro});
        for (Index micro = micro_batches; micro > 0; --micro)
            all.push_back({false, micro - 1});
        return all;
    }
    const Index ahead = std::min<Index>(micro_batches, stages - 1 - stage);
    for (Index micro = 0; micro < ahead; ++micro)
        all.push_back({true, micro});
    for (Index micro = 0; micro < micro_batches; ++micro) {
        if (micro + ahead < micro_batches)
            all.push_back({true, micro + ahead});
        all.push_back({false, micro});
    }
    return all;
}

} // namespace truestep::properties::mapl
