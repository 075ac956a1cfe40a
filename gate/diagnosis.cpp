#include "diagnosis.hpp"

#include <filesystem>

#include <scape/gate/processes.hpp>

#include "scratch.hpp"

namespace scape::gate {

std::vector<std::string> what_fits(const System& system, const Finding& finding, const std::string& command,
                                   double most_seconds) {
    using nlohmann::ordered_json;
    const problem::Index step = finding.parted_at();
    if (step < 1)
        return {};
    const std::string trace = lasting_scratch_file("explained.safetensors");
    std::error_code ignored;
    try {
        if (!finding.save(trace, "scape check"))
            return {};
        now_running(command); // the time begins here
        Ended ended;
        const ordered_json lines =
            in_child([&] { return ordered_json(system.what_fits(trace, step, Gradients::made_up)); },
                     most_seconds, ended);
        now_running("");
        std::filesystem::remove(trace, ignored);
        return lines.is_array() ? lines.get<std::vector<std::string>>() : std::vector<std::string>();
    } catch (const std::exception&) {
        // A guess must not cost the verdict.
        std::filesystem::remove(trace, ignored);
        return {};
    }
}

} // namespace scape::gate
