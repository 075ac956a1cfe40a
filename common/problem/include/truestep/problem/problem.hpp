// The settings of SCAPE and AdamS, and the problem that all ranks share.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include <truestep/problem/groups.hpp>
#include <truestep/problem/layout.hpp>
#include <truestep/problem/partition.hpp>

namespace truestep::problem {

enum class Algorithm { scape, adams };
enum class BiasCorrection { none, adam, momentum };
enum class DecayOrder {
    first,    ///< the rule: w*decay - lr*u
    together, ///< some public code: w - lr*(u + wd*w); read, never the default
};

/// The order in which the norm's block sums are added (section 5), by the numbers of the
/// specification.
enum class NormVersion {
    ascending = 1, ///< one after another; the order in traces that do not name one
    tree = 2,      ///< in pairs, and pairs of pairs
};
/// The format in which c travels (section 21) and, for the values with `both`, also M.
enum class Payload { fp32, bf16, e5m2, bf16_both, e5m2_both };
/// The format to which c is rounded: fp32, bf16 or e5m2.
[[nodiscard]] constexpr Payload format_of(Payload payload) {
    return payload == Payload::bf16_both   ? Payload::bf16
           : payload == Payload::e5m2_both ? Payload::e5m2
                                           : payload;
}
/// Whether the owner rounds M, too.
[[nodiscard]] constexpr bool rounds_mean(Payload payload) {
    return payload != format_of(payload);
}
/// The bytes of one value on its way to its owner.
[[nodiscard]] constexpr std::size_t value_bytes(Payload payload) {
    const Payload format = format_of(payload);
    return format == Payload::fp32 ? 4 : format == Payload::bf16 ? 2 : 1;
}
/// The bytes of a value's mean on the way back.
[[nodiscard]] constexpr std::size_t mean_bytes(Payload payload) {
    return rounds_mean(payload) ? value_bytes(payload) : value_bytes(Payload::fp32);
}

struct HyperParameters {
    double beta1 = 0.9;
    double beta2 = 0.95;
    double epsilon = 1e-8;
    double weight_decay = 0.1;
    double clip_norm = 0.0; ///< 0 = no clipping
    BiasCorrection bias_correction = BiasCorrection::adam;
    DecayOrder decay_order = DecayOrder::first;
    KRounding k_rounding = KRounding::floor;
    NormVersion norm = NormVersion::tree;
    Payload payload = Payload::fp32;
    Groups groups{}; ///< of the ranks; not part of the state
    /// The weight decays of the parameter groups after the first, which has `weight_decay`. Empty:
    /// all groups have that.
    std::vector<double> more_weight_decays{};

    [[nodiscard]] double weight_decay_of(Index param_group) const {
        return param_group == 0 || more_weight_decays.empty()
                   ? weight_decay
                   : more_weight_decays[static_cast<std::size_t>(param_group) - 1];
    }

    friend bool operator==(const HyperParameters&, const HyperParameters&) = default;
};

/// The learning rates of one step: one for each parameter group, or one for all.
class LearningRates {
  public:
    LearningRates(double all) : rates_{all} {} // NOLINT: most problems have one
    explicit LearningRates(std::vector<double> rates) : rates_(std::move(rates)) {}

    [[nodiscard]] double of(Index param_group) const {
        return rates_[rates_.size() == 1 ? 0 : static_cast<std::size_t>(param_group)];
    }

  private:
    std::vector<double> rates_;
};

/// A training problem: what is trained, how it is cut up and with which settings. Implementations
/// need only the schedules of learning rate and density besides, which are given per step.
struct Problem {
    Algorithm algorithm = Algorithm::scape;
    int workers = 1;
    Layout layout;
    std::vector<Segment> segments;
    HyperParameters settings;

    friend bool operator==(const Problem&, const Problem&) = default;
};

/// Both throw truestep::Error, one line, for an impossible setting.
void check(const HyperParameters& settings);
void check(const Problem& problem);
/// Throws truestep::Error unless the tensors use the groups 0, 1, 2, ... without a gap, and there
/// is one weight decay for each group or one for all. Only for whole models: a part may leave
/// groups out.
void check_param_groups(const Layout& layout, const HyperParameters& settings);

/// Parses "0.1,0": the weight decay of each parameter group, or one number for all. Throws
/// truestep::Error.
void parse_weight_decays(std::string_view text, HyperParameters& settings);

/// Whether the masks select every coordinate at any density, because all tensors are always dense.
[[nodiscard]] bool has_no_sparse_segment(const Problem& problem);

/// Makes a problem whose segments follow from a rule.
[[nodiscard]] Problem make_problem(Algorithm algorithm, int workers, Layout layout, PartitionRule rule,
                                   const HyperParameters& settings);

/// The problem of these coordinates alone: whole segments, which ascend. Each behaves as in the
/// whole model, except for the norm.
[[nodiscard]] Problem part(const Problem& whole, const std::vector<Range>& ranges);

/// The names of the choices in traces, options and messages.
[[nodiscard]] std::string_view name(Algorithm value);
[[nodiscard]] std::string_view name(BiasCorrection value);
[[nodiscard]] std::string_view name(DecayOrder value);
[[nodiscard]] std::string_view name(KRounding value);
[[nodiscard]] std::string_view name(NormVersion value);
[[nodiscard]] std::string_view name(Payload value);
[[nodiscard]] std::string_view name(PartitionRule value);

/// Throws truestep::Error that lists the valid words. Defined for the choices above.
template <class Choice>
[[nodiscard]] Choice parse(std::string_view text);

} // namespace truestep::problem
