#pragma once

#include <truestep/gate/case_spec.hpp>
#include <truestep/problem/data.hpp>
#include <truestep/problem/mapl/settings.hpp>

namespace truestep::properties::mapl {

using namespace problem::mapl;

/// The order in which a stage takes its micro-batches forward and back.
enum class Schedule : std::uint8_t {
    gpipe,           ///< all forward, then all back, the last first
    one_forward_one, ///< 1F1B: back as soon as it can be
};

/// Who trains a stage's parameters and the anchors at its sides.
enum class Trainer : std::uint8_t {
    none,  ///< nobody trains stages; anchors go down their own gradient
    adams, ///< dense AdamS, over the replicas of the stage
    scape, ///< SCAPE
};

/// A few small numbers, from which everything follows: a case is one line of text.
struct Case {
    Index rank = 1;
    Index width = 1;    ///< at least the rank
    Index workers = 2;  ///< stages; a boundary between each two
    Index replicas = 1; ///< of the whole pipeline, each with micro-batches of its own
    Index tokens = 1;   ///< of a micro-batch
    Index vocabulary = 1;
    Index micro = 1; ///< micro-batches of a step
    Index steps = 1;
    Index restart = 0; ///< after so many steps; 0: none
    Index seed = 0;
    Anchors anchors = Anchors::none;
    Order order = Order::project_first;
    Schedule schedule = Schedule::gpipe;
    bool dyadic = true; ///< else near to a normal distribution
    Payload payload = Payload::fp32;
    Index codewords = 0; ///< of a book; 0: Z travels as it is. What of the others does not fit it is 1
    Index groups = 1;
    Index rounds = 1;
    Index subsets = 1;
    Trainer trainer = Trainer::none; ///< of several replicas not none: they would part

    [[nodiscard]] int ranks() const { return static_cast<int>(workers * replicas); }
};

/// "rank=2,width=4,workers=3,...": all of it.
[[nodiscard]] const gate::CaseSpec<Case>& spec();

[[nodiscard]] Settings settings_of(const Case& run);

} // namespace truestep::properties::mapl
