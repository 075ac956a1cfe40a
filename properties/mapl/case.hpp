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

/// A few small numbers from which everything follows; a case is one line of text.
struct Case {
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

/// The settings of a case; a line has all of them: "rank=2,width=4,workers=3,...".
[[nodiscard]] const gate::CaseSpec<Case>& spec();

[[nodiscard]] Settings settings_of(const Case& run);
/// The tokens of a micro-batch, which is numbered over all replicas.
[[nodiscard]] Index tokens_of(const Case& run, Index step, Index micro);

} // namespace truestep::properties::mapl
