// Finds the system of a trace.
#include "systems.hpp"

#include <algorithm>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/trace/rank_fingerprints.hpp>
#include <truestep/trace/reader.hpp>

namespace truestep::tool {

std::string with_traces() {
    std::string names;
    for (const gate::System& system : all_systems())
        if (!system.traces.algorithms.empty())
            names += (names.empty() ? "" : ", ") + system.name;
    return names;
}

const gate::System& system_of_trace(const std::filesystem::path& path, const std::string& wanted) {
    if (!wanted.empty())
        static_cast<void>(gate::find_system(all_systems(), wanted));
    if (trace::holds_prints(path))
        throw Error(path.string() +
                    ": the fingerprints of a run, not a trace; give it to truestep fingerprints");
    const std::string algorithm = trace::algorithm_of(path);
    std::string known;
    for (const gate::System& system : all_systems()) {
        for (const std::string& name : system.traces.algorithms)
            known += (known.empty() ? "" : ", ") + name;
        if (std::ranges::find(system.traces.algorithms, algorithm) == system.traces.algorithms.end())
            continue;
        if (wanted.empty() || wanted == system.name)
            return system;
        throw Error(path.string() + ": a trace of the system " + system.name + " (algorithm '" + algorithm +
                    "'), and --system is " + wanted + "; omit --system: the trace names its system");
    }
    throw Error(path.string() + ": a trace of the algorithm '" + one_line(algorithm) +
                "', which no system here knows; there are " + known);
}

} // namespace truestep::tool
