// A program of any language as the stages of a pipeline: the messages of docs/program-protocol.md.
#include "program.hpp"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <utility>

#include <truestep/gate/program_hello.hpp>
#include <truestep/problem/error.hpp>

#include "family.hpp"
#include "player.hpp"

namespace truestep::mapl {

namespace {

using gate::Programs;
using Json = Programs::Json;

/// What the gate cannot see or ask of processes that talk by themselves.
void leave_out_what_is_not_seen(gate::ProgramHello& hello) {
    hello.left_out.try_emplace("traffic",
                               "a program's ranks talk by their own means, which the gate does not see");
    const char* const alike = "a program is given what both sides have alike, and takes it";
    for (const char* property : {"refusals", "starts"})
        hello.left_out.try_emplace(property, alike);
    hello.left_out.try_emplace("faults", "a program's processes end with the gate, not before");
    const char* const alone = "a program is one pipeline, whose stages nobody trains";
    for (const char* what : {"trainer", "composed"})
        hello.left_out.try_emplace(what, alone);
}

/// What came after the least that a program may be.
void leave_out_what_is_not_known(gate::ProgramHello& hello, const Json& answer) {
    const auto knows = [&](const char* what) {
        const auto found = answer.find("knows");
        return found != answer.end() && found->is_array() &&
               std::ranges::find(*found, Json(what)) != found->end();
    };
    if (!knows("payload"))
        hello.left_out.try_emplace("payload", "the program does not know the setting payload");
    if (knows("codewords"))
        return;
    for (const char* what : {"codewords", "quantization"})
        hello.left_out.try_emplace(what, "the program does not know the setting codewords");
}

class ProgramCandidate final : public Candidate {
  public:
    ProgramCandidate(const gate::ProgramSettings& settings, const std::shared_ptr<const gate::Group>& group)
        : group_(group),
          programs_(settings, {{"do", "hello"}, {"protocol", gate::program_protocol}, {"system", "mapl"}},
                    *group) {
        std::vector<std::string> names;
        for (const gate::Property& property : properties())
            names.push_back(property.name);
        const Json& answer = programs_.greeted(2);
        try {
            hello_ = gate::program_hello(answer, settings, {"subspace"}, names);
        } catch (const Error& error) {
            throw Error(std::string("--program, in its answer to 'hello': ") + error.what());
        }
        leave_out_what_is_not_known(hello_, answer);
        leave_out_what_is_not_seen(hello_);
    }

    std::string name() const override { return hello_.name; }
    std::string communicator() const override { return "program"; }
    bool communicates() const override { return false; }
    verify::LevelKind level() const override { return hello_.level; }
    bool takes(int workers) const override { return workers >= 2 && workers <= Programs::most_workers; }
    /// Its processes are this one's, from case to case.
    bool stays_here() const override { return true; }
    std::string unavailable() const override { return programs_.gave_up(); }
    gate::LeftOut left_out() const override { return hello_.left_out; }

    std::vector<Seen> run(const Scenario& scenario) const override {
        const int workers = scenario.run.ranks();
        const std::filesystem::path folder = programs_.folder(workers); // so that no thread has to start it
        std::vector<Seen> seen(static_cast<std::size_t>(workers));
        std::exception_ptr failed;
        try {
            // A thread a rank, so that each process is asked in the order of its own stage.
            group_->run_peers(workers, [&](distributed::Peers& peers) {
                const int rank = peers.rank();
                try {
                    seen[static_cast<std::size_t>(rank)] =
                        play_stage(scenario, program_sides(programs_, workers, rank, folder), peers);
                } catch (const std::exception& error) {
                    programs_.give_up(workers, error.what());
                    throw;
                }
            });
        } catch (...) {
            failed = std::current_exception();
        }
        programs_.mend(workers); // what a process has failed of is told before what came of it
        if (failed)
            std::rethrow_exception(failed);
        return seen;
    }

  private:
    std::shared_ptr<const gate::Group> group_;
    mutable Programs programs_; ///< which remembers nothing of a case that another would see
    gate::ProgramHello hello_;
};

} // namespace

std::shared_ptr<const gate::Implementation>
program_candidate(const gate::ProgramSettings& settings, const std::shared_ptr<const gate::Group>& group) {
    return std::make_shared<ProgramCandidate>(settings, group);
}

} // namespace truestep::mapl
