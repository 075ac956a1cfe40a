// Known bugs of communicators, as a rank would see them.
#include <utility>

#include "exchange.hpp"

namespace truestep::properties::exchange {

namespace {

enum Number {
    none,
    last_byte_stays,
    counts_too_many,
    reset_forgets,
    overtakes,
    never_let_go,
    blames_itself,
    tells_nobody
};

/// Two messages of one pair come in each other's place.
void swap_messages(const Case& run, std::size_t rank, Seen& seen) {
    for (std::size_t second = run.workers > 1 ? 1 : seen.received.size(); second < seen.received.size();
         ++second)
        for (std::size_t first = 0; first < second; ++first) {
            const Message one = message_of(run, first);
            const Message other = message_of(run, second);
            if (one.to == static_cast<int>(rank) && other.to == one.to && other.from == one.from)
                return std::swap(seen.received[first], seen.received[second]);
        }
}

} // namespace

void plant(int known_bug, const Case& run, std::size_t rank, Seen& seen) {
    switch (known_bug) {
    case last_byte_stays:
        for (Buffer& received : seen.received)
            if (received.size() > 1)
                received.back() ^= 1U;
        break;
    case counts_too_many:
        for (std::size_t kind = 0; kind < seen.first_half.bytes.size(); ++kind)
            seen.first_half.bytes[kind] += seen.first_half.exchanges[kind];
        break;
    case reset_forgets:
        for (std::size_t kind = 0; kind < seen.second_half.messages.size(); ++kind)
            seen.second_half.messages[kind] += seen.first_half.messages[kind];
        break;
    case overtakes:
        swap_messages(run, rank, seen);
        break;
    case never_let_go:
        seen.kept = seen.received.size();
        break;
    case blames_itself:
        if (!seen.ended.empty() && static_cast<int>(rank) == witness(run)) {
            const std::string text = "rank " + std::to_string(rank) + " has failed";
            seen.ended.assign(text.begin(), text.end());
        }
        break;
    case tells_nobody:
        seen.ended.clear();
        break;
    default:
        break;
    }
}

std::vector<problem::KnownBug> known_bugs() {
    return {
        {last_byte_stays, "the last byte stays behind", "Of each received buffer."},
        {counts_too_many, "a byte too many is counted",
         "In each exchange, as if a part of the rank's own were sent."},
        {reset_forgets, "a reset forgets the messages", "They are counted on. Needs two exchanges."},
        {overtakes, "a message overtakes another", "Of the same pair. Needs two messages."},
        {never_let_go, "a message is never let go", "Its sender waits for its memory for ever."},
        {blames_itself, "the witness is blamed", "The text names who notices the fault, not whose it is."},
        {tells_nobody, "a fault is told to nobody", "All ranks end as if nothing had been."}};
}

} // namespace truestep::properties::exchange
