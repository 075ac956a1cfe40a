// Keeps a program's processes for later cases, and starts new ones after a failure.
#include <truestep/gate/programs.hpp>

#include <algorithm>
#include <cstdio>
#include <utility>

#include <poll.h>

#include <truestep/gate/terminal.hpp>
#include <truestep/problem/error.hpp>

#include "interruption.hpp"
#include "program_world.hpp"

namespace truestep::gate {

namespace {

/// The most processes that are kept for later cases; a single case may need more.
constexpr int most_kept = 64;
/// An interpreter and its libraries start slowly, most of all several at a time.
double seconds_to_start(int workers) {
    return 60.0 + 5.0 * workers;
}

} // namespace

Programs::Programs(const ProgramSettings& settings, const std::string& system, const Group& group)
    : settings_(settings), words_(words_of(settings.command)), greeting_{{"do", "hello"},
                                                                         {"protocol", program_protocol},
                                                                         {"system", system}},
      scratch_(std::filesystem::absolute(scratch_folder(group))) {}

Programs::~Programs() {
    for (const auto& world : worlds_)
        world->dismiss();
    const auto all_have_ended = [this] {
        return std::ranges::all_of(worlds_, [](const auto& world) { return world->has_ended(); });
    };
    for (int look = 0; look < 100 && !all_have_ended(); ++look)
        poll(nullptr, 0, 10);
}

Programs::World& Programs::world(int workers) {
    const auto found =
        std::ranges::find_if(worlds_, [&](const auto& world) { return world->workers() == workers; });
    if (found != worlds_.end()) {
        std::rotate(found, found + 1, worlds_.end());
        return *worlds_.back();
    }
    if (!gave_up_.empty())
        throw ProgramFailed(gave_up_);
    make_room(workers);
    const auto folder = scratch_ / ("world" + std::to_string(++started_));
    auto started = std::make_unique<World>(words_, folder, workers);
    try {
        started->greet(greeting_, std::max(seconds_to_start(workers), settings_.answer_seconds));
    } catch (const ProgramFailed& failed) {
        note_failed_start(*started, failed.what());
        throw;
    }
    failed_starts_ = 0;
    worlds_.push_back(std::move(started));
    return *worlds_.back();
}

/// Gives up after several failed starts: each further case, and each smaller one, would start the program
/// again, which takes minutes and shows nothing new.
void Programs::note_failed_start(World& world, const std::string& why) {
    constexpr int most = 3;
    if (++failed_starts_ < most || patience_is_over())
        return;
    Progress::clear();
    std::fputs(world.last_lines().c_str(), stderr); // separate, since an error is one line
    gave_up_ = std::to_string(most) + " starts of its ranks in a row have failed, the last so: " + why +
               "; mend that, or name with --workers how many ranks do start";
}

/// Ends the least recently asked worlds.
void Programs::make_room(int workers) {
    int kept = 0;
    for (const auto& world : worlds_)
        kept += world->workers();
    while (!worlds_.empty() && kept + workers > most_kept) {
        kept -= worlds_.front()->workers();
        worlds_.erase(worlds_.begin());
    }
}

std::vector<Programs::Json> Programs::ask(int workers, std::vector<Json> messages,
                                          const std::vector<std::string>& expected) {
    World& asked = world(workers);
    try {
        return asked.ask(std::move(messages), expected, settings_.answer_seconds);
    } catch (const ProgramFailed&) {
        worlds_.pop_back();
        throw;
    }
}

Programs::World& Programs::greeted_world(int workers) const {
    return **std::ranges::find_if(worlds_, [&](const auto& world) { return world->workers() == workers; });
}

Programs::Json Programs::ask_one(int workers, int rank, Json message, const std::string& expected) {
    return greeted_world(workers).ask_one(static_cast<std::size_t>(rank), std::move(message), expected,
                                          settings_.answer_seconds);
}

void Programs::give_up(int workers, const std::string& why) {
    greeted_world(workers).give_up(why);
}

void Programs::mend(int workers) {
    const std::string failure = world(workers).whole_failure();
    if (failure.empty())
        return;
    worlds_.pop_back();
    throw ProgramFailed(failure);
}

const Programs::Json& Programs::greeted(int workers) {
    return world(workers).greeted();
}

std::filesystem::path Programs::folder(int workers) {
    return world(workers).folder();
}

void Programs::fail(int workers, int rank, const std::string& what) {
    try {
        world(workers).fail(rank, what);
    } catch (const ProgramFailed&) {
        worlds_.pop_back();
        throw;
    }
}

std::int64_t whole_number(const Programs::Json& answer, const char* key) {
    const auto found = answer.find(key);
    if (found == answer.end() || !found->is_number_integer())
        throw Error(std::string("\"") + key + "\" must be a whole number");
    return found->get<std::int64_t>();
}

std::string text_of(const Programs::Json& answer) {
    const auto text = answer.find("text");
    return text != answer.end() && text->is_string() ? plain_line(*text) : std::string("it gives no text");
}

} // namespace truestep::gate
