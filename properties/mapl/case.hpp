// The cases of MAPL.
#pragma once

#include <truestep/gate/case_spec.hpp>
#include <truestep/problem/data.hpp>
#include <truestep/problem/mapl/settings.hpp>

namespace truestep::properties::mapl {

using namespace problem::mapl;
using problem::DataClass;
using problem::mapl::Settings; // not that of <truestep/optimizer.hpp>

/// The order in which a stage takes its micro-batches forward and back.
enum class Schedule : std::uint8_t {
    gpipe,           ///< all forward, then all back, the last first
    one_forward_one, ///< 1F1B: back as soon as possible
};

/// The optimizer that trains a stage's parameters and the anchors at its sides.
enum class Trainer : std::uint8_t {
    none,  ///< stages are not trained; anchors go down their own gradient
    adams, ///< dense AdamS, over the replicas of the stage
    scape, ///< SCAPE
};

/// The most rows of a table that a case can make.
constexpr Index most_anchored = 1 << 20;

/// A few small numbers from which everything follows; a case is one line of text.
struct Case {
    static const gate::ListedKind<Case> kinds[];

    Index rank = 1;
    Index width = 1;    ///< at least the rank
    Index workers = 2;  ///< stages; there is a boundary between each two
    Index replicas = 1; ///< of the whole pipeline, each with its own micro-batches
    Index tokens = 1;   ///< in a micro-batch
    Index uneven = 0;   ///< 1: up to `tokens`, by step and micro-batch; also none
    Index vocabulary = 1;
    Index micro = 1; ///< micro-batches in a step
    Index steps = 1;
    Index restart = 0; ///< after this many steps; 0: none
    Index seed = 0;
    Anchors anchors = Anchors::none;
    Order order = Order::project_first;
    Schedule schedule = Schedule::gpipe;
    DataClass data = DataClass::dyadic; ///< of activations, gradients and parameters
    Payload payload = Payload::fp32;
    Index codewords = 0; ///< in a book; 0: Z is sent as it is. Settings below that do not fit it become 1
    Index groups = 1;
    Index rounds = 1;
    Index subsets = 1;
    Trainer trainer = Trainer::none; ///< `none` only with one replica: several would part ways

    [[nodiscard]] bool dyadic() const { return data == DataClass::dyadic; }
    [[nodiscard]] int ranks() const { return static_cast<int>(workers * replicas); }
};

inline constexpr gate::ListedKind<Case> Case::kinds[] = {
    {"several boundaries", 40, [](const Case& run) { return run.workers > 2; }},
    {"several micro-batches", 40, [](const Case& run) { return run.micro > 1; }},
    {"unequal micro-batches", 20,
     [](const Case& run) { return run.uneven > 0 && run.micro * run.steps > 1; }},
    {"several steps", 40, [](const Case& run) { return run.steps > 1; }},
    {"anchors", 50, [](const Case& run) { return run.anchors != Anchors::none; }},
    {"compressed", 50, [](const Case& run) { return run.width > run.rank; }},
    {"restart", 90, [](const Case& run) { return run.restart > 0; }},
    {"exact sums", 30, [](const Case& run) { return run.dyadic(); }},
    {"payload of 16 bits", 15, [](const Case& run) { return run.payload == Payload::bf16; }},
    {"codewords", 25, [](const Case& run) { return run.codewords > 0; }},
    {"several rounds", 15, [](const Case& run) { return run.codewords > 0 && run.rounds > 1; }},
    {"streamed", 12, [](const Case& run) { return run.codewords > 0 && run.subsets > 1; }},
    {"several replicas", 60, [](const Case& run) { return run.replicas > 1; }},
    {"trained by SCAPE", 40, [](const Case& run) { return run.trainer == Trainer::scape; }},
    {"rotated", 40},
    {"orders that part", 80},
    {"too large a payload", 20},
    {"too large a codeword", 5},
    {"a damaged message"},
    {"a projection overflows"}};

/// The settings of a case; a line has all of them: "rank=2,width=4,workers=3,...".
[[nodiscard]] const gate::CaseSpec<Case>& spec();

[[nodiscard]] Settings settings_of(const Case& run);
/// The tokens of a micro-batch, which is numbered over all replicas.
[[nodiscard]] Index tokens_of(const Case& run, Index step, Index micro);

} // namespace truestep::properties::mapl
