// Has the ranks of a candidate restore a damaged checkpoint.
#include "restore_damaged.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>

namespace truestep::properties::scape {

namespace {

/// A rank's message to the others.
struct Word {
    std::array<char, 400> text{};
    bool failed = false;
};

/// The result as text, or the error.
template <class Say>
Word word_of(const Say& say) {
    Word word;
    std::string text;
    try {
        text = say();
    } catch (const std::exception& error) {
        text = error.what();
        word.failed = true;
    }
    text.copy(word.text.data(), word.text.size() - 1);
    return word;
}

} // namespace

Outcome restored_from_damaged(RankUnderTest& candidate, const std::filesystem::path& folder,
                              const Damage& damage, distributed::Communicator& ranks) {
    using distributed::gather_records;
    static_cast<void>(gather_records(ranks, char{})); // all have saved
    Word change;
    if (ranks.rank() == 0)
        change = word_of([&] { return make_damage(folder, damage); });
    change = gather_records(ranks, change).front();
    if (change.failed)
        throw std::runtime_error(std::string("the gate could not damage a file: ") + change.text.data());
    Outcome outcome;
    outcome.damaged = change.text.data();
    if (outcome.damaged.empty())
        return outcome;

    const Word mine = word_of([&] {
        candidate.restore(folder);
        return std::string();
    });
    const auto all = gather_records(ranks, mine);
    const auto refuses = std::ranges::find(all, true, &Word::failed);
    const auto restores = std::ranges::find(all, false, &Word::failed);
    if (refuses != all.end() && restores != all.end())
        throw std::runtime_error(outcome.damaged + ": rank " + std::to_string(restores - all.begin()) +
                                 " has restored that checkpoint, rank " +
                                 std::to_string(refuses - all.begin()) +
                                 " refuses it: " + refuses->text.data());
    if (mine.failed) {
        outcome.kind = Outcome::Kind::refused;
        outcome.text = mine.text.data();
    }
    return outcome;
}

} // namespace truestep::properties::scape
