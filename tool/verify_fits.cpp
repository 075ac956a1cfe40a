// Searches in a child process for the known bugs that explain a failed trace.
#include "verify_fits.hpp"

#include <exception>

#include <truestep/gate/processes.hpp>
#include <truestep/gate/results.hpp>
#include <truestep/verify/diagnosis.hpp>

namespace truestep::tool {

namespace {

constexpr double most_seconds_of_a_guess = 600.0;

} // namespace

std::vector<std::string> what_fits(const gate::System& system, const verify::TraceVerdict& verdict,
                                   const std::string& trace, const verify::VerifyOptions& options) {
    if (verdict.status != verify::Status::failed || !verdict.first)
        return {};
    std::vector<std::string> lines = verify::what_may_be_wrong(system.traces, verdict, options);
    try {
        // Runs in its own process, since a tried bug may crash it.
        gate::ProcessEnd ended;
        gate::now_running("truestep verify " + gate::shell_word(trace)); // the time begins here
        const nlohmann::ordered_json fits = gate::in_child(
            [&] {
                return nlohmann::ordered_json(system.what_fits(
                    trace, {verdict.first->step, verdict.first->index}, gate::Gradients::recorded));
            },
            most_seconds_of_a_guess, ended);
        gate::now_running("");
        if (fits.is_array())
            for (const nlohmann::ordered_json& line : fits)
                lines.push_back(line);
        else
            lines.push_back("known bugs were not tried: the process that tries them " + ended.how);
    } catch (const std::exception& error) {
        // A guess must not cost the verdict.
        lines.push_back(std::string("known bugs were not tried: ") + error.what());
    }
    return lines;
}

} // namespace truestep::tool
