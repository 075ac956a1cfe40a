// Asks the processes of one program's ranks, and reports those that end, hang or answer wrongly.
#include "program_world.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <system_error>
#include <utility>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

#include "interruption.hpp"

namespace truestep::gate {

namespace {

using Clock = std::chrono::steady_clock;

/// How often a wait for answers looks for an interruption.
constexpr double look_every_seconds = 0.25;
/// The longest answer.
constexpr std::size_t most_characters = std::size_t{1} << 20U;

/// A free port of this host.
int free_port() {
    const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    const bool found = probe >= 0 && bind(probe, plain, size) == 0 && getsockname(probe, plain, &size) == 0;
    if (probe >= 0)
        close(probe);
    return found ? ntohs(address.sin_port) : 0;
}

std::string quoted(const std::string& text) {
    constexpr std::size_t most_told = 120;
    const std::string line = plain_line(text);
    return "'" + line.substr(0, most_told) + (line.size() > most_told ? "...'" : "'");
}

} // namespace

Programs::World::World(const std::vector<std::string>& words, std::filesystem::path folder, int workers)
    : folder_(std::move(folder)), questions_(static_cast<std::size_t>(workers)) {
    const std::filesystem::path rendezvous = folder_ / "rendezvous";
    std::filesystem::create_directories(rendezvous);
    const std::string port = std::to_string(free_port());
    for (int rank = 0; rank < workers; ++rank) {
        const std::string number = std::to_string(rank);
        ranks_.push_back(std::make_unique<ProgramProcess>(
            words,
            std::vector<std::string>{"RANK=" + number, "LOCAL_RANK=" + number,
                                     "WORLD_SIZE=" + std::to_string(workers), "MASTER_ADDR=127.0.0.1",
                                     "MASTER_PORT=" + port, "TRUESTEP_RENDEZVOUS=" + rendezvous.string()}));
    }
}

Programs::World::~World() {
    ranks_.clear();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
}

void Programs::World::greet(const Json& greeting, double seconds) {
    std::vector<Json> messages;
    for (int rank = 0; rank < workers(); ++rank) {
        Json message = greeting;
        message["rank"] = rank;
        message["workers"] = workers();
        messages.push_back(std::move(message));
    }
    greeted_ = ask(std::move(messages), {"hello"}, seconds).front();
}

std::vector<std::size_t> Programs::World::all_ranks() const {
    std::vector<std::size_t> all(ranks_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    return all;
}

std::vector<Programs::Json> Programs::World::ask(std::vector<Json> messages,
                                                 const std::vector<std::string>& expected, double seconds) {
    const std::vector<std::size_t> all = all_ranks();
    for (const std::size_t rank : all)
        expect_silence(rank);
    for (const std::size_t rank : all)
        put(rank, std::move(messages[rank]));
    return answers_of(all, expected, seconds);
}

/// Uses only the processes of the asked ranks, since other threads may ask others meanwhile.
std::vector<Programs::Json> Programs::World::answers_of(const std::vector<std::size_t>& asked,
                                                        const std::vector<std::string>& expected,
                                                        double seconds) {
    std::vector<Json> answers(asked.size());
    std::vector<bool> answered(asked.size(), false);
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    while (true) {
        for (std::size_t place = 0; place < asked.size(); ++place) {
            if (answered[place]) {
                ranks_[asked[place]]->work();
            } else if (auto answer = take(asked[place], expected)) {
                answers[place] = std::move(*answer);
                answered[place] = true;
            }
        }
        if (std::ranges::find(answered, false) == answered.end())
            return answers;
        fail_for_the_ended(asked, answered);
        if (const std::string other = failure(); !other.empty())
            throw ProgramFailed(other);
        if (patience_is_over())
            throw ProgramFailed("interrupted");
        const double left = std::chrono::duration<double>(end - Clock::now()).count();
        if (left <= 0.0)
            fail_for_the_silent(asked, answered, seconds);
        std::vector<pollfd> awaited;
        for (const std::size_t rank : asked)
            ranks_[rank]->add_to(awaited);
        poll(awaited.data(), awaited.size(),
             static_cast<int>(std::ceil(std::min(left, look_every_seconds) * 1000.0)));
    }
}

void Programs::World::put(std::size_t rank, Json message) {
    Question& question = questions_[rank];
    question.asked = ", asked for " + quoted(message.value("do", "")) +
                     (message.contains("step") ? " " + message["step"].dump() : "");
    message["id"] = ++question.id;
    ranks_[rank]->send(message.dump(-1, ' ', true, Json::error_handler_t::replace));
}

std::optional<Programs::Json> Programs::World::take(std::size_t rank,
                                                    const std::vector<std::string>& expected) {
    ranks_[rank]->work();
    if (const auto line = ranks_[rank]->take_line())
        return checked(rank, *line, expected);
    if (ranks_[rank]->left().size() > most_characters)
        fail(static_cast<int>(rank), "wrote more than 1 MiB without a complete answer");
    return std::nullopt;
}

Programs::Json Programs::World::ask_one(std::size_t rank, Json message, const std::string& expected,
                                        double seconds) {
    try {
        expect_silence(rank);
        put(rank, std::move(message));
        return std::move(answers_of({rank}, {expected}, seconds).front());
    } catch (const ProgramFailed& failed) {
        give_up(failed.what());
        throw;
    }
}

void Programs::World::give_up(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty())
        failure_ = why;
}

std::string Programs::World::failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
}

std::string Programs::World::whole_failure() {
    std::string first = failure();
    if (first.empty())
        return first;
    for (const auto& rank : ranks_)
        rank->work();
    try {
        fail_for_the_ended(all_ranks(), std::vector<bool>(ranks_.size(), false));
    } catch (const ProgramFailed& all) {
        return all.what();
    }
    return first;
}

/// Fails if a rank wrote without a question: it would be taken for the next answer.
void Programs::World::expect_silence(std::size_t rank) {
    ranks_[rank]->work();
    if (!ranks_[rank]->left().empty())
        fail(static_cast<int>(rank), "wrote without being asked: " + quoted(ranks_[rank]->left()) +
                                         "; write messages to standard error");
}

Programs::Json Programs::World::checked(std::size_t rank, const std::string& line,
                                        const std::vector<std::string>& expected) {
    const int who = static_cast<int>(rank);
    Json answer = Json::parse(line, nullptr, false);
    if (!answer.is_object())
        fail(who, "wrote a line that is not a JSON object: " + quoted(line));
    const auto id = answer.find("id");
    if (id == answer.end() || *id != questions_[rank].id)
        fail(who, "answered out of turn: \"id\" has to be " + std::to_string(questions_[rank].id) + " in " +
                      quoted(line));
    const auto did = answer.find("did");
    if (did == answer.end() || !did->is_string())
        fail(who, "its answer lacks \"did\": " + quoted(line));
    if (*did == "error")
        fail(who, "says: " + text_of(answer));
    if (std::ranges::find(expected, did->get<std::string>()) == expected.end()) {
        std::string could;
        for (const std::string& one : expected)
            could += (could.empty() ? "'" : "', '") + one;
        fail(who, "answered " + quoted(*did) + "; that can be " + could + "' or 'error'");
    }
    return answer;
}

std::string Programs::World::story(std::size_t rank, const std::string& what) {
    const std::vector<std::string> last = ranks_[rank]->last_lines(1);
    return "rank " + std::to_string(rank) + " of " + std::to_string(workers()) + questions_[rank].asked +
           ", " + what + (last.empty() ? "" : "; the last line of its standard error: " + last.front());
}

std::string Programs::World::last_lines() {
    constexpr std::size_t most = 10;
    // Ranks that ended say more than ranks that were waiting for them.
    for (const bool ended : {true, false})
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
            if (ranks_[rank]->output_is_closed() != ended)
                continue;
            std::string text;
            for (const std::string& line : ranks_[rank]->last_lines(most))
                text += "  " + line + "\n";
            if (!text.empty())
                return "the last lines of the standard error of rank " + std::to_string(rank) + ":\n" +
                       text;
        }
    return {};
}

void Programs::World::fail(int rank, const std::string& what) {
    throw ProgramFailed(story(static_cast<std::size_t>(rank), what));
}

/// Throws if any of the asked ranks has ended. It names all that have, since it is not known which was the
/// first.
void Programs::World::fail_for_the_ended(const std::vector<std::size_t>& asked,
                                         const std::vector<bool>& answered) {
    std::string told;
    for (std::size_t place = 0; place < asked.size(); ++place) {
        const ProgramProcess& process = *ranks_[asked[place]];
        if (!process.output_is_closed())
            continue;
        const std::string end = process.end();
        told += (told.empty() ? "" : "; ") +
                story(asked[place], (end.empty() ? "closed its standard output" : end) +
                                        (answered[place] ? ", after its answer" : ""));
    }
    if (!told.empty())
        throw ProgramFailed(told);
}

void Programs::World::fail_for_the_silent(const std::vector<std::size_t>& asked,
                                          const std::vector<bool>& answered, double seconds) {
    std::string told;
    for (std::size_t place = 0; place < asked.size(); ++place)
        if (!answered[place])
            told +=
                (told.empty() ? "" : "; ") +
                story(asked[place],
                      "did not answer within " + shortest(seconds) + " s" +
                          (ranks_[asked[place]]->left().empty() ? "" : ", but for a line without its end"));
    throw ProgramFailed(told);
}

void Programs::World::dismiss() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        put(rank, {{"do", "end"}});
        ranks_[rank]->close_input();
    }
}

bool Programs::World::has_ended() const {
    return std::ranges::all_of(ranks_, [](const auto& rank) { return rank->has_ended(); });
}

} // namespace truestep::gate
