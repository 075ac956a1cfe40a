// Saves a finding's run as a trace, and guesses in a child process which known bug explains it.
#include "diagnosis.hpp"

#include <filesystem>

#include <truestep/gate/processes.hpp>

#include "scratch.hpp"

namespace truestep::gate {

namespace {

std::vector<std::string> all_lines(const System& system, const std::filesystem::path& trace,
                                   const FirstDifference& parted) {
    std::vector<std::string> lines;
    if (system.traces.verify)
        lines = system.traces.verify(trace, {}).hints;
    const std::vector<std::string> fits = system.what_fits(trace, parted, Gradients::synthetic);
    lines.insert(lines.end(), fits.begin(), fits.end());
    return lines;
}

} // namespace

std::vector<std::string> what_fits(const System& system, const Finding& finding, const std::string& command,
                                   double most_seconds) {
    using nlohmann::ordered_json;
    const problem::Index step = finding.parted_at();
    if (step < 1)
        return {};
    const std::string trace = lasting_scratch_file("explained.safetensors");
    std::error_code ignored;
    try {
        if (!finding.save(trace, "truestep check"))
            return {};
        now_running(command); // the time limit counts from here
        ProcessEnd ended;
        const ordered_json lines =
            in_child([&] { return ordered_json(all_lines(system, trace, {step})); }, most_seconds, ended);
        now_running("");
        std::filesystem::remove(trace, ignored);
        return lines.is_array() ? lines.get<std::vector<std::string>>() : std::vector<std::string>();
    } catch (const std::exception&) {
        // A failed guess must not cost the verdict.
        std::filesystem::remove(trace, ignored);
        return {};
    }
}

} // namespace truestep::gate
