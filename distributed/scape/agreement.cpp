// Checks that all ranks have the same problem and take the same step, and refuses bad gradients.
#include "agreement.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <truestep/problem/digest.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/groups.hpp>
#include <truestep/problem/settings.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/problem/value_digest.hpp>

namespace truestep::distributed::scape {

RefusedStep::RefusedStep(int on_rank, Index at_index, float refused, const std::string& told)
    : std::runtime_error("step refused on all ranks: " + told), rank(on_rank), index(at_index),
      value(refused) {}

RefusedStep::RefusedStep(int on_rank, Index at_index, float refused, const problem::Layout& layout)
    : RefusedStep(on_rank, at_index, refused,
                  "the gradient of rank " + std::to_string(on_rank) + ", " + layout.describe(at_index) +
                      ", is " + shortest(refused) + "; it must be finite and at most 2^56 in magnitude") {}

RefusedStep RefusedStep::of_payload(int on_rank, Index at_index, float refused,
                                    const problem::Layout& layout) {
    return {on_rank, at_index, refused,
            "c of rank " + std::to_string(on_rank) + ", " + layout.describe(at_index) + ", is " +
                shortest(refused) + "; a payload of bf16 holds nothing beyond 3.39e+38, use fp32"};
}

void check_finite(const problem::Layout& layout, const std::string& what, std::span<const float> values) {
    // Without a way out of the loop it is vectorized, and most often it is all there is to do. Every bit of
    // the exponent set, and only that, adds up to the sign.
    std::uint32_t signs = 0;
    for (const float value : values)
        signs |= (std::bit_cast<std::uint32_t>(value) & 0x7FFF'FFFFU) + 0x0080'0000U;
    if ((signs & 0x8000'0000U) == 0)
        return;
    for (std::size_t i = 0; i < values.size(); ++i)
        if (!std::isfinite(values[i]))
            throw Error(what + " of " + layout.describe(static_cast<Index>(i)) + " is " +
                        shortest(values[i]) + "; it must be finite");
}

void check_step(const problem::Layout& layout, const std::string& halted, std::size_t gradient_size,
                double learning_rate) {
    if (!halted.empty())
        throw Halted("no step can be taken: " + halted + "; restore a state to continue");
    if (gradient_size != static_cast<std::size_t>(layout.size()))
        throw Error("gradient: " + std::to_string(gradient_size) + " values given; the model has " +
                    std::to_string(layout.size()));
    if (!std::isfinite(learning_rate))
        throw Error("learning rate is " + shortest(learning_rate) + "; it must be finite");
}

namespace {

/// The settings in the digest of a problem, by name.
using NamedSettings = std::vector<std::pair<std::string, std::string>>;

NamedSettings named_settings(const problem::Problem& problem, const std::vector<problem::Range>& ranges,
                             const problem::DensitySchedule& density, const Scape::Options& options) {
    const problem::HyperParameters& settings = problem.settings;
    std::string tensors;
    for (const problem::Tensor& tensor : problem.layout.tensors())
        tensors += (tensors.empty() ? "" : ",") + tensor.name + ":" + std::to_string(tensor.size) +
                   (tensor.always_dense ? ":dense" : "");
    std::string partition;
    for (const problem::Segment& segment : problem.segments)
        partition += std::to_string(segment.begin) + ":" + std::to_string(segment.end) + ":" +
                     std::to_string(segment.owner) + ",";
    for (const problem::Range& range : ranges)
        partition += std::to_string(range.begin) + "-" + std::to_string(range.end) + ",";
    NamedSettings all{{"algorithm", std::string(name(problem.algorithm))}, {"tensors", tensors}};
    problem::visit_settings([&](const std::string& key, auto member, const auto&...) {
        all.emplace_back(key, problem::setting_text(settings.*member));
    });
    for (const double decay : settings.more_weight_decays)
        std::ranges::find(all, "weight_decay", &NamedSettings::value_type::first)->second +=
            "," + shortest(decay);
    if (settings.clip_norm == 0.0)
        std::ranges::find(all, "norm", &NamedSettings::value_type::first)->second = "without effect";
    all.insert(all.end(),
               {{"density", density.description()},
                {"groups", settings.groups.empty() ? "none" : problem::groups_text(settings.groups)},
                {"reduction", std::string(name(options.reduction))},
                {"largest_piece", std::to_string(options.largest_piece)},
                {"partition", partition}});
    return all;
}

/// Names the first setting in which the problem of this rank differs from that of rank 0. All ranks
/// call it only after they have found a difference, so that the usual agreement stays small.
std::string difference_of(Communicator& communicator, std::size_t rank, const NamedSettings& mine) {
    struct Setting {
        std::uint64_t digest;
        std::array<char, 56> text;
    };
    std::array<Setting, 32> record{};
    if (mine.size() > record.size())
        throw std::logic_error("agreement.cpp has room for 32 settings");
    for (std::size_t i = 0; i < mine.size(); ++i) {
        problem::Digest digest;
        for (const char letter : mine[i].second)
            digest.add(static_cast<unsigned char>(letter));
        record[i].digest = digest.value();
        if (mine[i].second.size() < record[i].text.size())
            std::ranges::copy(mine[i].second, record[i].text.begin());
    }
    const auto all = gather_records(communicator, record);
    for (std::size_t i = 0; i < mine.size(); ++i) {
        const Setting& here = all[rank][i];
        const Setting& first = all[0][i];
        if (here.digest == first.digest)
            continue;
        const bool short_enough = here.text[0] != '\0' && first.text[0] != '\0';
        return short_enough
                   ? mine[i].first + " is " + here.text.data() + " where rank 0 has " + first.text.data()
                   : "they differ in " + mine[i].first;
    }
    return "their digests differ";
}

} // namespace

void check_one_param_group(const problem::Layout& layout) {
    if (layout.param_groups() > 1)
        throw Error("the tensors are of " + std::to_string(layout.param_groups()) +
                    " parameter groups; the sharded implementation has one learning rate and weight decay "
                    "for all: put all tensors into one group");
}

void agree_on_problem(Communicator& communicator, const problem::Problem& problem,
                      const std::vector<problem::Range>& ranges, const problem::DensitySchedule& density,
                      const Scape::Options& options, std::span<const float> parameters) {
    if (parameters.size() != static_cast<std::size_t>(problem.layout.size()))
        throw Error("parameters: " + std::to_string(parameters.size()) + " values given; the model has " +
                    std::to_string(problem.layout.size()));
    if (communicator.size() != problem.workers)
        throw Error("the problem has " + std::to_string(problem.workers) + " workers, the communicator " +
                    std::to_string(communicator.size()) + " ranks; they must be as many");
    struct Record {
        std::uint64_t problem;
        std::uint64_t parameters;
    };
    problem::Digest given;
    given.add(problem::digest(problem, ranges, density));
    given.add(static_cast<std::uint64_t>(options.reduction));
    given.add(static_cast<std::uint64_t>(options.largest_piece));
    const auto all = gather_records(communicator, Record{given.value(), problem::digest_of(parameters)});
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (all[rank].problem != all[0].problem)
            throw Error(
                "rank " + std::to_string(rank) + " was given another problem than rank 0: " +
                difference_of(communicator, rank, named_settings(problem, ranges, density, options)) +
                "; give all ranks the same");
        if (all[rank].parameters != all[0].parameters)
            throw Error("rank " + std::to_string(rank) +
                        " was given other initial parameters than rank 0; give all ranks the same bits");
    }
    // All ranks have the same parameters by now, so all throw.
    check_finite(problem.layout, "initial parameter", parameters);
}

namespace {

constexpr std::uint64_t claim_bits = 2 * had_some - 1;

std::uint64_t said_of(const Attempt& attempt) {
    problem::Digest alike;
    for (const std::uint64_t part : attempt.restored)
        alike.add(part);
    alike.add(std::bit_cast<std::uint64_t>(attempt.learning_rate));
    return (alike.value() & ~claim_bits) | static_cast<std::uint64_t>(attempt.claim);
}

AgreementResult agreed_by(const Communicator& communicator, const AgreementRoom& room) {
    std::uint64_t claim = 0;
    for (const Intent& intent : room.all)
        claim = std::max(claim, intent.said & claim_bits);
    return {communicator.sent_by_gather(room.sizes), static_cast<int>(claim) % had_some};
}

/// The begin of an error about this attempt.
std::string text_of(const Attempt& attempt) {
    const std::string step = "step " + std::to_string(attempt.step);
    return attempt.bucket == 0 ? step : step + ", bucket " + std::to_string(attempt.bucket);
}

float value_of(const Intent& intent) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(intent.said));
}

constexpr Index cannot = -1; ///< a bucket, or a step, in which its own rank finds a fault

/// The identity of a bucket, as a number below `cannot`.
Index number_of(std::span<const std::size_t> tensors) {
    problem::Digest digest;
    for (const std::size_t tensor : tensors)
        digest.add(tensor);
    return -2 - static_cast<Index>(digest.value() >> 2U);
}

std::string told(Index intent) {
    return intent >= 0 ? "takes the step" : "gives a bucket";
}

/// Throws the same error on all ranks unless all are about to do the same.
void expect_same(const std::vector<Intent>& all, const Attempt& attempt) {
    const Index first = all.front().refused;
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        const Index other = all[rank].refused;
        if ((first >= 0 && other >= 0) || first == other)
            continue;
        if (first == cannot || other == cannot)
            throw Error(text_of(attempt) + ": rank " + std::to_string(first == cannot ? 0 : rank) +
                        " refused the step, and its own error says why; nothing has changed on any rank");
        const bool buckets = first < cannot && other < cannot;
        throw Error(text_of(attempt) + ": rank 0 " + told(first) + ", rank " + std::to_string(rank) + " " +
                    (buckets ? "another one" : told(other)) +
                    "; all ranks must give the same buckets in the same order, and then the step");
    }
}

/// Names the first thing in which two ranks that say another digest differ.
std::string difference_of(const std::string& who, std::size_t rank, const RestoredDigests& here,
                          double rate, const RestoredDigests& first, double first_rate) {
    constexpr std::array<const char*, 5> parts{"parameters", "step", "moment", "mask", "coming mask"};
    constexpr RestoredDigests none{};
    if (here == first)
        return who + " has the learning rate " + shortest(rate) + " where rank 0 has " +
               shortest(first_rate) + "; give all ranks the same";
    const auto at = static_cast<std::size_t>(std::ranges::mismatch(here, first).in1 - here.begin());
    return who + " has restored another state than rank 0: " +
           (here == none || first == none
                ? "only rank " + std::to_string(here == none ? 0 : rank) + " has one"
                : std::string("they differ in the ") + parts[at]) +
           "; restore the same checkpoint on all ranks";
}

/// Throws the same error on all ranks if one continues from another state, or with another learning
/// rate; ranks that refuse do not state theirs.
void expect_alike(Communicator& communicator, const std::vector<Intent>& all, Index d,
                  const Attempt& attempt) {
    const auto says = [d](const Intent& intent) { return intent.refused < 0 || intent.refused == d; };
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (!says(all[0]) || !says(all[rank]) ||
            (all[rank].said & ~claim_bits) == (all[0].said & ~claim_bits))
            continue;
        struct Record {
            RestoredDigests restored;
            double learning_rate;
        };
        const auto records = gather_records(communicator, Record{attempt.restored, attempt.learning_rate});
        throw Error(text_of(attempt) + ": " +
                    difference_of("rank " + std::to_string(rank), rank, records[rank].restored,
                                  records[rank].learning_rate, records[0].restored,
                                  records[0].learning_rate));
    }
}

} // namespace

void say_interrupted(std::string& halted, Index step) {
    halted = "step ";
    halted += std::to_string(step);
    halted += " was interrupted";
}

RestoredDigests digests_of_state(const RankState& state) {
    const auto of_mask = [](const Mask& mask) {
        problem::Digest digest;
        for (std::size_t word = 0; word < mask.word_count(); ++word)
            digest.add(mask.words()[word]);
        return digest.value();
    };
    return {problem::digest_of(state.parameters), static_cast<std::uint64_t>(state.step),
            problem::digest_of(state.packed_moment), of_mask(state.current), of_mask(state.coming)};
}

AgreementResult agree_on_gradient(Communicator& communicator, AgreementRoom& room,
                                  const problem::Problem& problem, Index refused, float value,
                                  const Attempt& attempt) {
    const Index d = problem.layout.size();
    const Index mine = attempt.fault.empty() ? refused : cannot;
    gather_records(communicator,
                   Intent{mine, refused != d ? std::bit_cast<std::uint32_t>(value) : said_of(attempt)},
                   room.all, room.sizes);
    const std::vector<Intent>& all = room.all;
    if (!attempt.fault.empty())
        throw Error(text_of(attempt) + ": " + attempt.fault);
    expect_same(all, attempt);
    for (std::size_t rank = 0; rank < all.size(); ++rank)
        if (all[rank].refused < d)
            throw RefusedStep(static_cast<int>(rank), all[rank].refused, value_of(all[rank]),
                              problem.layout);
    for (std::size_t rank = 0; rank < all.size(); ++rank)
        if (all[rank].refused > d)
            throw RefusedStep::of_payload(static_cast<int>(rank), all[rank].refused - d - 1,
                                          value_of(all[rank]), problem.layout);
    expect_alike(communicator, all, d, attempt);
    return agreed_by(communicator, room);
}

AgreementResult agree_on_bucket(Communicator& communicator, AgreementRoom& room,
                                std::span<const std::size_t> tensors, const Attempt& attempt) {
    const Index mine = attempt.fault.empty() ? number_of(tensors) : cannot;
    gather_records(communicator, Intent{mine, said_of(attempt)}, room.all, room.sizes);
    if (!attempt.fault.empty())
        throw Error(text_of(attempt) + ": " + attempt.fault);
    expect_same(room.all, attempt);
    expect_alike(communicator, room.all, 0, attempt);
    return agreed_by(communicator, room);
}

AgreementResult agree_on_exponent(Communicator& communicator, AgreementRoom& room, int claim) {
    gather_records(communicator, Intent{0, static_cast<std::uint64_t>(claim)}, room.all, room.sizes);
    return agreed_by(communicator, room);
}

} // namespace truestep::distributed::scape
