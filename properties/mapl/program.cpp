// A program of any language as the stages of a pipeline: the messages of docs/program-protocol.md.
#include "program.hpp"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <utility>

#include <truestep/gate/program_implementation.hpp>

#include "family.hpp"
#include "player.hpp"

namespace truestep::properties::mapl {

namespace {

using Json = gate::Programs::Json;

/// Leaves out what the gate cannot see or ask of processes that talk by themselves.
void leave_out_what_is_not_seen(gate::ProgramHello& hello) {
    hello.without({"traffic"}, "a program's ranks talk by their own means, which the gate does not see");
    hello.without({"refusals", "starts", "restart.settings"},
                  "a program is given what both sides have alike, and takes it");
    hello.without({"token_order"}, "a program may add tokens in another order");
    hello.without({"faults"}, "a program's processes end with the gate, not before");
    hello.without({"trainer", "composed"}, "a program is one pipeline, whose stages nobody trains");
}

/// Leaves out optional settings that the program does not know.
void leave_out_what_is_not_known(gate::ProgramHello& hello, const Json& answer) {
    const auto knows = [&](const char* what) {
        const auto found = answer.find("knows");
        return found != answer.end() && found->is_array() &&
               std::ranges::find(*found, Json(what)) != found->end();
    };
    if (!knows("payload"))
        hello.without({"payload"}, "the program does not know the setting payload");
    if (!knows("codewords"))
        hello.without({"codewords", "quantization"}, "the program does not know the setting codewords");
}

gate::ProgramSystem programs_of_mapl() {
    return {"mapl",
            2,
            {"subspace"},
            gate::names_of(properties()),
            [](const Json& answer, gate::ProgramHello& hello) {
                leave_out_what_is_not_known(hello, answer);
                leave_out_what_is_not_seen(hello);
            }};
}

class ProgramCandidate final : public gate::ProgramImplementation<Implementation> {
  public:
    ProgramCandidate(const gate::ProgramSettings& settings, const std::shared_ptr<const gate::Group>& group)
        : ProgramImplementation(settings, group, programs_of_mapl()) {}

    std::vector<RankRecording> run(const Scenario& scenario) const override {
        const int workers = scenario.run.ranks();
        const std::filesystem::path folder =
            programs().folder(workers); // so that no thread has to start it
        std::vector<RankRecording> seen(static_cast<std::size_t>(workers));
        std::exception_ptr failed;
        try {
            // One thread per rank, so that each process is asked in the order of its own stage.
            group().run_peers(workers, [&](distributed::Peers& peers) {
                const int rank = peers.rank();
                try {
                    seen[static_cast<std::size_t>(rank)] =
                        play_stage(scenario, program_sides(programs(), workers, rank, folder), peers);
                } catch (const std::exception& error) {
                    programs().give_up(workers, error.what());
                    throw;
                }
            });
        } catch (...) {
            failed = std::current_exception();
        }
        programs().mend(workers); // a process's failure is reported before its consequences
        if (failed)
            std::rethrow_exception(failed);
        return seen;
    }
};

} // namespace

std::shared_ptr<const gate::Implementation>
program_candidate(const gate::ProgramSettings& settings, const std::shared_ptr<const gate::Group>& group) {
    return std::make_shared<ProgramCandidate>(settings, group);
}

} // namespace truestep::properties::mapl
