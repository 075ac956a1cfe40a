// The settings of a trace of MAPL by their names, in the order of its config.
#pragma once

#include <truestep/trace/config.hpp>
#include <truestep/verify/mapl/traces.hpp>

namespace truestep::verify::mapl {

/// Keeps products of two or three sizes from overflowing.
constexpr Index most_rows = 1 << 20;
/// The limit for steps and micro-batches. Each has named vectors: beyond this the names alone would
/// fill the memory.
constexpr Index most_steps = 1'000'000;

/// Calls visit(name, member) for each setting, with the range of a whole number or the parser of a
/// word.
template <class AnyConfig, class Visit>
void visit_settings(AnyConfig& config, const Visit& visit) {
    using trace::Range;
    auto& settings = config.settings;
    visit("steps", config.steps, Range{1, most_steps});
    visit("micro_batches", config.micro, Range{1, most_steps});
    visit("tokens", config.tokens, Range{1, most_rows});
    visit("width", settings.width, Range{1, most_rows});
    visit("subspace_rank", settings.rank, Range{1, most_rows});
    visit("vocabulary", settings.vocabulary);
    visit("anchors", settings.anchors, parse_anchors);
    visit("order", settings.order, parse_order);
    visit("beta", settings.beta);
    visit("direction_iterations", settings.direction_iterations, Range{1, most_iterations});
    visit("retraction_iterations", settings.retraction_iterations, Range{1, most_iterations});
    visit("payload", settings.payload, parse_payload);
}

/// The settings of codewords, except their number, which says whether there are any. The orders of
/// turns follow from the seed.
template <class AnySettings, class Visit>
void visit_codewords(AnySettings& settings, const Visit& visit) {
    using trace::Range;
    auto& of = settings.quantization;
    visit("groups", of.groups, Range{1, most_rows});
    visit("rounds", of.rounds, Range{1, most_rounds});
    visit("subsets", of.subsets, Range{1, most_codewords});
    visit("decay", of.decay);
    visit("seed", settings.seed, Range{0, Index{1} << 62U});
}

} // namespace truestep::verify::mapl
