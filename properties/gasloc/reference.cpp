// The property that every bit is the reference's, or every value within its bound.
#include "family.hpp"

namespace truestep::properties::gasloc {

namespace {

using gate::Line;

// 16, and all other rules at once.
void equals_the_reference(Trial& trial) {
    trial.lives = trial.play(trial.scenario);
    trial.as_the_reference(trial.lives);
}

/// Larger cases, tried beside the drawn ones.
std::vector<Line> larger_cases(const gate::Implementation& /*of*/, const gate::Overrides& overrides) {
    if (!overrides.empty())
        return {};
    // Beyond a piece and a thread's share; many workers; a restart half-way; more than 2^16 steps.
    return {"law=two_peers,inner=adamw,data=normal,workers=3,size=140003,rounds=2,steps=2,threads=3",
            "law=pairs,inner=adams,data=ties,workers=2,size=65537,rounds=3,gamma=0.25,late=3",
            "law=ring,data=wide,workers=5,size=131072,rounds=2,uneven=1,alpha=0.3,decay=0.1,threads=2",
            "law=complete,inner=adamw,data=normal,workers=33,size=7,rounds=3,gamma=0.5,steps=3",
            "law=exponential,inner=adamw,workers=9,size=5,rounds=300,gamma=0.25,alpha=0.3,restart=150",
            "law=pairs,inner=adamw,data=normal,workers=1,size=1,rounds=400,steps=200,gamma=0.5"};
}

} // namespace

std::vector<gate::Property> reference_properties() {
    std::vector<gate::Property> all{
        property(0, "reference", "Every bit is the reference's (at REL: every value within its bound).",
                 equals_the_reference,
                 {{"neighbours", 50},
                  {"several neighbours", 20},
                  {"one that meets nobody", 5},
                  {"odd number of ranks", 20},
                  {"uneven", 30},
                  {"no inner steps", 20},
                  {"adaptive", 40},
                  {"momentum", 50},
                  {"several rounds", 50}})};
    all.front().also = larger_cases;
    return all;
}

} // namespace truestep::properties::gasloc
