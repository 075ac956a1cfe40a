// The property that every bit is the reference's, or every value within its bound.
#include <truestep/gate/edges.hpp>

#include "family.hpp"

namespace truestep::properties::gasloc {

namespace {

using gate::Line;
using problem::DataClass;

// 16, and all other rules at once.
void equals_the_reference(Trial& trial) {
    trial.lives = trial.play(trial.scenario);
    trial.as_the_reference(trial.lives);
}

/// Larger cases, tried beside the drawn ones.
std::vector<Line> larger_cases(const gate::Implementation& /*of*/, const gate::Overrides& overrides) {
    if (!overrides.empty())
        return {};
    // At the edges of pieces and threads' units.
    std::vector<Line> all;
    std::size_t turn = 0;
    gate::Covering covering;
    for (const std::int64_t size : gate::edge_sizes(problem::Dimension::model)) {
        covering.begin({{problem::Dimension::model, size}});
        Case run;
        run.size = size;
        run.law =
            covering.choose("law", {Law::pairs, Law::two_peers, Law::ring, Law::given, Law::complete});
        run.inner = covering.choose("inner", {Inner::adamw, Inner::sgd, Inner::adams});
        run.momentum = covering.choose("momentum", {Momentum::local, Momentum::gossiped});
        run.data = covering.choose("data", {DataClass::normal, DataClass::ties, DataClass::wide,
                                            DataClass::subnormal, DataClass::sparse, DataClass::zeros});
        run.workers = covering.choose<Index>("workers", {2, 3});
        run.threads = covering.choose<Index>("threads", {1, 2, 3, 4});
        run.skip = covering.choose<Index>("skip", {0, 2});
        run.late = covering.choose<Index>("late", {0, 3});
        run.rounds = 2;
        run.steps = covering.choose<Index>("steps", {1, 2});
        run.alpha = 0.3;
        run.gamma = 0.25;
        run.decay = covering.choose("decay", {0.0, 0.1});
        run.seed = static_cast<Index>(turn + 1);
        all.push_back(spec().text(run));
        // And with a value in another piece that is not finite.
        if (size > 60'000) {
            run.inner = Inner::sgd;
            run.skip = 0;
            run.overflow = 1 + static_cast<Index>(turn % 2);
            all.push_back(spec().text(run));
        }
        ++turn;
    }
    // Many workers; a restart half-way; more than 2^16 steps.
    for (const char* line :
         {"law=complete,inner=adamw,data=normal,workers=33,size=7,rounds=3,gamma=0.5,steps=3",
          "law=exponential,inner=adamw,workers=9,size=5,rounds=300,gamma=0.25,alpha=0.3,restart=150",
          "law=pairs,inner=adamw,data=normal,workers=1,size=1,rounds=400,steps=200,gamma=0.5",
          // Both moments become subnormal, then 0.
          "law=pairs,inner=adamw,data=once,workers=2,size=5,rounds=400,steps=2,beta1=0.5,beta2=0.5",
          // In a round that is lost, momentum that is off takes no zero's sign.
          "law=none,inner=sgd,data=zeros,workers=2,size=70,rounds=2,gamma=0,skip=1",
          // Who halts may meet nobody in that round.
          "law=none,inner=sgd,workers=2,size=5,rounds=2,overflow=1",
          "law=none,inner=sgd,workers=2,size=5,rounds=2,gamma=0.25,momentum=gossiped,overflow=2",
          "law=pairs,inner=sgd,workers=3,size=5,rounds=3,overflow=1,seed=1",
          "law=pairs,inner=sgd,workers=3,size=5,rounds=3,overflow=1,seed=2",
          "law=pairs,inner=sgd,workers=3,size=5,rounds=3,overflow=1,seed=3"})
        all.emplace_back(line);
    return all;
}

} // namespace

std::vector<gate::Property> reference_properties() {
    std::vector<gate::Property> all{
        property(0, "reference", "Every bit is the reference's (at REL: every value within its bound).",
                 equals_the_reference,
                 {{"neighbours", 50},
                  {"several neighbours", 20},
                  "one that meets nobody",
                  "odd number of ranks",
                  "uneven",
                  "no inner steps",
                  "adaptive",
                  {"momentum", 50},
                  "several rounds"})};
    all.front().also = larger_cases;
    return all;
}

} // namespace truestep::properties::gasloc
