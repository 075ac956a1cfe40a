#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <truestep/problem/gasloc/graph.hpp>

// The cost of a step from d, P, density and six constants of a machine, as docs/cost-model.md
// describes. Pure functions of numbers: nothing here runs a step.

namespace truestep::model {

/// One rank's part of a machine; what ranks share is divided among them.
struct Machine {
    double bandwidth = 50e9; ///< of its link, bytes per second each way
    double latency = 5e-6;   ///< seconds an exchange takes at least
    double overhead = 1e-6;  ///< seconds for each message of an exchange
    double transport = 0.0;  ///< seconds of its processor for each byte it sends
    double memory = 3.6e12;  ///< bytes per second of its passes
    double irregular = 0.0;  ///< seconds for each cache line that is gathered from or scattered to
};

struct Setting {
    double size = 0; ///< d
    double ranks = 1;
    double density = 0.01;
    double compute = 0;      ///< seconds of forward and backward in a step, behind which a mask may hide
    double inner_steps = 30; ///< H: local schemes end a round with an exchange
    problem::gasloc::Law law = problem::gasloc::Law::pairs; ///< who meets whom in it, of gasloc
    double group = 0; ///< ranks in each group, of scape-hierarchy; 0: sqrt(P)
};

/// The properties of a scheme that decide its costs. Names are those of bench_peers, if that times
/// the scheme.
struct Scheme {
    std::string_view name;
    bool sparse; ///< the density matters
    bool local;  ///< H matters
    std::string_view words;
};
[[nodiscard]] std::span<const Scheme> schemes();

/// The work of one rank in one step. For local schemes a step is an H-th of a round.
struct Work {
    double values = 0;    ///< bytes sent: gradients, parameters, payloads, with their indices
    double mask = 0;      ///< bytes sent that may take until the next step
    double exchanges = 0; ///< other than the mask's
    double messages = 0;  ///< of those, sent by this rank
    double mask_messages = 0;
    double mask_exchanges = 0;
    double passes = 0; ///< bytes that its passes read and write; slower passes count as more
    double lines = 0;  ///< cache lines that it gathers from or scatters to
};
/// Throws truestep::Error for an unknown scheme, or a law that does not fit the number of workers.
[[nodiscard]] Work work_of(std::string_view scheme, const Setting& setting);

struct Seconds {
    double values = 0; ///< on the wire and in the transport
    double messages = 0;
    double mask = 0; ///< all of it, hidden or not
    double local = 0;
    double step = 0; ///< all together with compute, the mask as far as compute does not hide it
};
[[nodiscard]] Seconds seconds_of(const Work& work, const Setting& setting, const Machine& machine);
[[nodiscard]] Seconds seconds_of(std::string_view scheme, const Setting& setting, const Machine& machine);

/// The scheme's speed-up over dense AdamS with fp32.
[[nodiscard]] double speed_up(std::string_view scheme, const Setting& setting, const Machine& machine);

/// The bandwidth at which the scheme is `ratio` times as fast as `other`; 0 if there is none.
[[nodiscard]] double bandwidth_for(double ratio, std::string_view scheme, std::string_view other,
                                   const Setting& setting, Machine machine);

/// The least bytes per parameter that tell which coordinates are selected.
[[nodiscard]] double mask_entropy(double density);

/// A measured step, without compute.
struct Measured {
    std::string scheme;
    Setting setting;
    double bandwidth;
    double seconds;
    double delay = 0; ///< seconds that the network adds to each exchange
};
/// The measured step on another machine, over the link on which it was measured.
[[nodiscard]] double predicted(const Measured& row, Machine machine);
/// The machine whose predictions are nearest to the measurements, by squares of relative errors.
/// `overhead` is taken from `start`. Throws truestep::Error if the steps are too few or too
/// similar.
[[nodiscard]] Machine fit(std::span<const Measured> measured, const Machine& start);

} // namespace truestep::model
