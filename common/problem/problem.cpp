// Checks the settings of SCAPE and AdamS, and converts their choices to words and back.
#include <truestep/problem/problem.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/settings.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::problem {

namespace {

template <class Choice>
using Word = std::pair<Choice, std::string_view>;

template <class Choice>
struct Words;

template <>
struct Words<Algorithm> {
    static constexpr std::string_view what = "algorithm";
    static constexpr std::array table{Word<Algorithm>{Algorithm::scape, "scape"},
                                      Word<Algorithm>{Algorithm::adams, "adams"}};
};

template <>
struct Words<BiasCorrection> {
    static constexpr std::string_view what = "bias_correction";
    static constexpr std::array table{Word<BiasCorrection>{BiasCorrection::none, "none"},
                                      Word<BiasCorrection>{BiasCorrection::adam, "adam"},
                                      Word<BiasCorrection>{BiasCorrection::momentum, "momentum"}};
};

template <>
struct Words<DecayOrder> {
    static constexpr std::string_view what = "decay_order";
    static constexpr std::array table{Word<DecayOrder>{DecayOrder::first, "first"},
                                      Word<DecayOrder>{DecayOrder::together, "together"}};
};

template <>
struct Words<KRounding> {
    static constexpr std::string_view what = "k_rounding";
    static constexpr std::array table{Word<KRounding>{KRounding::floor, "floor"},
                                      Word<KRounding>{KRounding::ceil, "ceil"}};
};

template <>
struct Words<NormVersion> {
    static constexpr std::string_view what = "norm";
    static constexpr std::array table{Word<NormVersion>{NormVersion::ascending, "1"},
                                      Word<NormVersion>{NormVersion::tree, "2"}};
};

template <>
struct Words<Payload> {
    static constexpr std::string_view what = "payload";
    static constexpr std::array table{
        Word<Payload>{Payload::fp32, "fp32"}, Word<Payload>{Payload::bf16, "bf16"},
        Word<Payload>{Payload::e5m2, "e5m2"}, Word<Payload>{Payload::bf16_both, "bf16_both"},
        Word<Payload>{Payload::e5m2_both, "e5m2_both"}};
};

template <>
struct Words<PartitionRule> {
    static constexpr std::string_view what = "partition";
    static constexpr std::array table{Word<PartitionRule>{PartitionRule::by_shard, "by_shard"},
                                      Word<PartitionRule>{PartitionRule::by_tensor, "by_tensor"}};
};

template <class Choice>
std::string_view name_of(Choice value) {
    for (const auto& [known, text] : Words<Choice>::table)
        if (known == value)
            return text;
    throw Error(std::string(Words<Choice>::what) + ": not one of the known values");
}

} // namespace

std::string_view name(Algorithm value) {
    return name_of(value);
}
std::string_view name(BiasCorrection value) {
    return name_of(value);
}
std::string_view name(DecayOrder value) {
    return name_of(value);
}
std::string_view name(KRounding value) {
    return name_of(value);
}
std::string_view name(NormVersion value) {
    return name_of(value);
}
std::string_view name(Payload value) {
    return name_of(value);
}
std::string_view name(PartitionRule value) {
    return name_of(value);
}

template <class Choice>
Choice parse(std::string_view text) {
    std::string known;
    for (const auto& [value, word] : Words<Choice>::table) {
        if (word == text)
            return value;
        known += known.empty() ? "" : ", ";
        known += word;
    }
    throw Error(std::string(Words<Choice>::what) + " is '" + std::string(text) + "'; it must be one of " +
                known);
}

template Algorithm parse<Algorithm>(std::string_view);
template BiasCorrection parse<BiasCorrection>(std::string_view);
template DecayOrder parse<DecayOrder>(std::string_view);
template KRounding parse<KRounding>(std::string_view);
template NormVersion parse<NormVersion>(std::string_view);
template Payload parse<Payload>(std::string_view);
template PartitionRule parse<PartitionRule>(std::string_view);

void check(const HyperParameters& settings) {
    visit_settings([&]([[maybe_unused]] const char* key, [[maybe_unused]] auto member, const char*,
                       const auto&... limits) { (check_limits(key, settings.*member, limits), ...); });
    for (const double decay : settings.more_weight_decays)
        check_limits("weight_decay", decay, not_negative);
}

void check(const Problem& problem) {
    check_workers(problem.workers);
    check(problem.settings);
    if (problem.algorithm == Algorithm::adams && problem.settings.clip_norm > 0.0)
        throw Error("clip_norm is " + shortest(problem.settings.clip_norm) +
                    "; algorithm adams has no clipping (section 3), set it to 0");
    if (problem.algorithm == Algorithm::adams && problem.settings.payload != Payload::fp32)
        throw Error(
            "payload is '" + std::string(name(problem.settings.payload)) +
            "'; algorithm adams has no residual for what rounding loses (section 21), set it to fp32");
    if (problem.algorithm == Algorithm::adams && !problem.settings.groups.empty())
        throw Error("groups is " + groups_text(problem.settings.groups) +
                    "; algorithm adams is added on one level (section 32), leave it out");
    check_groups(problem.settings.groups, problem.workers);
    static_cast<void>(checked_segments(problem.layout, problem.workers, problem.segments));
}

bool has_no_sparse_segment(const Problem& problem) {
    return std::ranges::all_of(problem.segments, [](const Segment& segment) {
        return segment.always_dense || segment.size() == 0;
    });
}

void check_param_groups(const Layout& layout, const HyperParameters& settings) {
    std::vector<Index> named;
    for (const Tensor& tensor : layout.tensors())
        named.push_back(tensor.param_group);
    std::ranges::sort(named);
    Index groups = 0;
    for (const Index group : named) {
        if (group > groups)
            throw Error("parameter group " + std::to_string(groups) + " has no tensor, and group " +
                        std::to_string(group) + " has one; number them without a gap");
        groups = group + 1;
    }
    const auto decays = static_cast<Index>(settings.more_weight_decays.size()) + 1;
    if (decays > 1 && decays != groups)
        throw Error("weight_decay has " + std::to_string(decays) + " numbers, and the tensors are of " +
                    std::to_string(groups) + (groups == 1 ? " parameter group" : " parameter groups") +
                    "; give one number for each group, or one for all");
}

void parse_weight_decays(std::string_view text, HyperParameters& settings) {
    const auto numbers = parse_numbers<double>(text);
    if (!numbers)
        throw Error("weight_decay is '" + std::string(text) +
                    "'; give a number, or one for each parameter group with commas between");
    settings.weight_decay = numbers->front();
    settings.more_weight_decays.assign(numbers->begin() + 1, numbers->end());
}

Problem make_problem(Algorithm algorithm, int workers, Layout layout, PartitionRule rule,
                     const HyperParameters& settings) {
    auto pieces = segments(layout, ranges(layout, workers, rule));
    Problem problem{algorithm, workers, std::move(layout), std::move(pieces), settings};
    check(problem);
    check_param_groups(problem.layout, settings);
    return problem;
}

Problem part(const Problem& whole, const std::vector<Range>& ranges) {
    std::vector<Segment> segments;
    Index size = 0;
    for (const Range& range : ranges) {
        for (auto segment = std::ranges::lower_bound(whole.segments, range.begin, {}, &Segment::begin);
             segment != whole.segments.end() && segment->end <= range.end; ++segment) {
            segments.push_back({size, size + segment->size(), segment->owner, segment->always_dense});
            size += segment->size();
        }
    }
    return {whole.algorithm, whole.workers, whole.layout.part(ranges), std::move(segments), whole.settings};
}

} // namespace truestep::problem
