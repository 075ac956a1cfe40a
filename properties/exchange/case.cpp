// Declares the settings of a case of exchanges, and derives from them what is sent.
#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include <truestep/problem/partition.hpp>

#include "exchange.hpp"

namespace truestep::properties::exchange {

namespace {

/// Many parts are empty, and few are large.
std::size_t part_size(const Case& run, std::size_t number, std::size_t from, std::size_t to) {
    const std::uint64_t drawn = run.random(For::sizes, {number, from, to});
    const auto most = static_cast<std::size_t>(run.bytes);
    constexpr std::size_t small = 64;
    if (drawn % 4 < 2)
        return drawn % 4 == 0 ? 0 : most;
    return (drawn >> 8U) % (std::min(most, small) + 1);
}

/// Parts of these sizes, one after the other.
std::vector<Stretch> in_a_row(std::size_t count, const auto& size_of) {
    std::vector<Stretch> parts;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < count; ++i) {
        parts.push_back({begin, size_of(i)});
        begin += parts.back().size;
    }
    return parts;
}

std::size_t end_of(const std::vector<Stretch>& parts) {
    std::size_t end = 0;
    for (const Stretch& part : parts)
        end = std::max(end, part.begin + part.size);
    return end;
}

/// The parts of ranks that all have one size for a receiver, and the places where those come.
void same_for_all(Plan& plan, std::size_t ranks, const auto& size_for) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        plan.to.push_back(in_a_row(ranks, size_for));
        plan.place.push_back(in_a_row(ranks, [&](std::size_t) { return size_for(rank); }));
    }
}

/// Each rank's own part for all, in the order of ranks.
void own_parts(Plan& plan, std::size_t ranks, const auto& size_of) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        plan.to.emplace_back(ranks, Stretch{0, size_of(rank)});
        plan.place.push_back(in_a_row(ranks, size_of));
    }
}

/// The bytes of a rank's buffer, from `begin` on.
Buffer random_bytes(const Case& run, std::size_t number, std::size_t rank, std::size_t begin,
                    std::size_t size) {
    constexpr std::size_t word_bytes = sizeof(std::uint64_t);
    Buffer bytes(size);
    for (std::size_t at = begin; at < begin + size;) {
        const std::uint64_t word = run.random(For::bytes, {number, rank, at / word_bytes});
        const std::size_t first = at % word_bytes;
        const std::size_t count = std::min(word_bytes - first, begin + size - at);
        std::memcpy(bytes.data() + (at - begin), reinterpret_cast<const char*>(&word) + first, count);
        at += count;
    }
    return bytes;
}

/// Whole numbers, whose sums are exact in any order.
std::vector<float> summands(const Case& run, std::size_t number, std::size_t rank, std::size_t begin,
                            std::size_t count) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i)
        values[i] = static_cast<float>(run.random(For::bytes, {number, rank, begin + i}) % 1000);
    return values;
}

Buffer bytes_of(const std::vector<float>& values) {
    Buffer bytes(values.size() * sizeof(float));
    if (!values.empty())
        std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

} // namespace

const gate::CaseSpec<Case>& spec() {
    using gate::from_to;
    using gate::number;
    using gate::one_of;
    constexpr Index most = 1'000'000;
    static const gate::CaseSpec<Case> all{
        .settings =
            {number("exchanges", &Case::exchanges, 1, most)
                 .draws(from_to<Index>(1, 40), &Case::exchanges)
                 .asked("numbers of exchanges in a case", {"several at once"})
                 .always(),
             number("workers", &Case::workers, 1, problem::most_workers)
                 .draws(from_to<Index>(1, 8), &Case::workers)
                 .asked("numbers of ranks", {"several ranks"})
                 .in_rows({"1", "2", "3", "5", "8"})
                 .always(),
             number("bytes", &Case::bytes, 0, 100 * most)
                 .draws(one_of<Index>(
                            {4, 0, 1, 13, 64, 300, 4092, 4096, 4100, 8192, 8196, 70'000, 262'144, 262'148}),
                        &Case::bytes)
                 .asked("sizes of the largest part, in bytes")
                 .always(),
             number("at_once", &Case::at_once, 1, most)
                 .draws(from_to<Index>(1, 20), &Case::at_once)
                 .always(),
             gate::word("way", &Case::way, {"plain", "pieces", "disturbed", "groups", "peers"})
                 .draws(one_of<Way>({Way::plain, Way::pieces, Way::disturbed, Way::groups, Way::peers}),
                        &Case::way)
                 .asked("ways to exchange: as it is, in small pieces over MPI, late and in another order, "
                        "in two hops through groups, by messages between pairs",
                        {"of peers"})
                 .in_rows({"plain", "pieces", "disturbed", "groups", "peers"})
                 .always(),
             gate::word("fault", &Case::fault,
                        {"size", "traffic", "operation", "drops", "leaves", "throws", "aborts", "hangs",
                         "takes_nothing"})
                 .draws(one_of<Fault>({Fault::size, Fault::traffic, Fault::operation, Fault::drops,
                                       Fault::leaves, Fault::throws, Fault::aborts, Fault::hangs,
                                       Fault::takes_nothing}),
                        &Case::fault),
             number("seed", &Case::seed, 0, most).draws(from_to<Index>(1, 99), &Case::seed).always()},
        .own_key = "exchanges",
        .fits_drawn =
            [](Case& run) { // a case takes less than a second
                constexpr Index large = 10'000;
                if (run.bytes > large)
                    run.exchanges = std::min<Index>(run.exchanges, 8);
            },
        .columns = {"workers", "way"},
        .most_workers = [](const Case& run) { return static_cast<int>(run.workers); },
        .values_for =
            [](const gate::Implementation& tested, const std::string& /*key*/,
               std::vector<std::string> values) {
                if (values.size() > 1 && tested.communicator() != "mpi") // where nothing goes in pieces
                    std::erase(values, "pieces");
                return values;
            }};
    return all;
}

std::uint64_t Case::random(For use, std::initializer_list<std::uint64_t> places) const {
    return gate::random_number(seed, static_cast<std::uint64_t>(use), places);
}

std::size_t Plan::sent_by(std::size_t rank) const {
    return end_of(to[rank]);
}

std::size_t Plan::received_by(std::size_t rank) const {
    return operation == Operation::reduce_scatter ? place[rank].front().size : end_of(place[rank]);
}

Plan plan_of(const Case& run, std::size_t number) {
    constexpr std::uint64_t operations = 7;
    const auto drawn = [&](std::uint64_t what) { return run.random(For::plans, {number, what}); };
    const auto own_size = [&](std::size_t rank) { return part_size(run, number, rank, rank); };
    const auto ranks =
        run.way == Way::peers ? members_of(run).size() : static_cast<std::size_t>(run.workers);
    Plan plan{.operation = static_cast<Operation>(drawn(0) % operations),
              .traffic = static_cast<Traffic>(drawn(1) % distributed::traffic_kinds)};
    switch (plan.operation) {
    case Operation::all_to_all:
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            plan.to.push_back(
                in_a_row(ranks, [&](std::size_t peer) { return part_size(run, number, rank, peer); }));
            plan.place.push_back(
                in_a_row(ranks, [&](std::size_t peer) { return part_size(run, number, peer, rank); }));
        }
        break;
    case Operation::to_owners:
        if (run.way != Way::peers) // which sends whole parts alone
            plan.piece = {drawn(2) % static_cast<std::uint64_t>(run.bytes + 1),
                          drawn(3) % static_cast<std::uint64_t>(run.bytes + 1)};
        for (std::size_t rank = 0; rank < ranks; ++rank)
            plan.sizes.push_back(own_size(rank));
        same_for_all(plan, ranks, [&](std::size_t owner) { return plan.piece.size_in(plan.sizes[owner]); });
        for (std::vector<Stretch>& to : plan.to) {
            to = in_a_row(ranks, own_size);
            for (Stretch& part : to)
                part = {part.begin + plan.piece.begin_in(part.size), plan.piece.size_in(part.size)};
        }
        break;
    case Operation::stretches:
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            plan.to.emplace_back();
            plan.place.emplace_back(ranks);
            std::size_t begin = 0;
            for (std::size_t turn = 0; turn < ranks; ++turn) {
                plan.to[rank].push_back({run.random(For::plans, {number, rank, turn}) % 50,
                                         part_size(run, number, rank, turn)});
                const std::size_t peer =
                    (turn + number + rank) % ranks; // received in another order, and apart
                plan.place[rank][peer] = {begin, part_size(run, number, peer, rank)};
                begin += plan.place[rank][peer].size + run.random(For::plans, {number, peer, rank}) % 3;
            }
        }
        break;
    case Operation::all_gather:
    case Operation::gather_in_place:
        own_parts(plan, ranks, own_size);
        break;
    case Operation::reduce_scatter:
        same_for_all(plan, ranks,
                     [&](std::size_t rank) { return own_size(rank) / sizeof(float) * sizeof(float); });
        break;
    case Operation::records:
        plan.traffic = Traffic::agreement;
        own_parts(plan, ranks, [](std::size_t) { return sizeof(Record); });
        break;
    }
    return plan;
}

Buffer buffer_of(const Case& run, const Plan& plan, std::size_t number, std::size_t rank) {
    std::size_t size = plan.sent_by(rank);
    if (plan.operation == Operation::reduce_scatter)
        return bytes_of(summands(run, number, rank, 0, size / sizeof(float)));
    if (plan.operation == Operation::to_owners)
        size = std::reduce(plan.sizes.begin(), plan.sizes.end());
    return random_bytes(run, number, rank, 0, size);
}

Buffer arrives(const Case& run, const Plan& plan, std::size_t number, std::size_t rank) {
    if (plan.operation == Operation::reduce_scatter) {
        const Stretch mine = plan.to.front()[rank];
        std::vector<float> sums(mine.size / sizeof(float));
        for (std::size_t from = 0; from < plan.ranks(); ++from) {
            const std::vector<float> values =
                summands(run, number, from, mine.begin / sizeof(float), sums.size());
            std::ranges::transform(sums, values, sums.begin(), std::plus());
        }
        return bytes_of(sums);
    }
    Buffer received(plan.received_by(rank), untouched);
    for (std::size_t from = 0; from < plan.ranks(); ++from) {
        const auto [begin, size] = plan.to[from][rank];
        std::ranges::copy(random_bytes(run, number, from, begin, size),
                          received.begin() + static_cast<std::ptrdiff_t>(plan.place[rank][from].begin));
    }
    return received;
}

std::vector<int> groups_of(const Case& run) {
    std::vector<int> groups;
    for (int left = static_cast<int>(run.workers); left > 0; left -= groups.back())
        groups.push_back(1 + static_cast<int>(run.random(For::groups, {groups.size()}) %
                                              static_cast<std::uint64_t>(left)));
    return groups;
}

std::vector<int> members_of(const Case& run) {
    std::vector<int> ranks(static_cast<std::size_t>(run.workers));
    std::iota(ranks.begin(), ranks.end(), 0);
    std::ranges::sort(ranks, {}, [&](int rank) {
        return run.random(For::groups, {0, static_cast<std::uint64_t>(rank)});
    });
    ranks.resize(1 + run.random(For::groups) % ranks.size());
    return ranks;
}

Message message_of(const Case& run, std::size_t number) {
    const auto ranks = static_cast<std::uint64_t>(run.workers);
    const auto drawn = [&](std::uint64_t what) { return run.random(For::messages, {number, what}); };
    const std::uint64_t from = drawn(0) % ranks;
    return {.from = static_cast<int>(from),
            .to = static_cast<int>((from + 1 + drawn(1) % (ranks - 1)) % ranks),
            .traffic = static_cast<Traffic>(drawn(2) % distributed::traffic_kinds),
            .dropped = drawn(3) % 5 == 0,
            .bytes = random_bytes(run, number, from, 0, part_size(run, number, from, ranks))};
}

Sent sent_in(const Case& run, std::size_t rank, std::size_t begin, std::size_t end) {
    Sent sent;
    for (std::size_t number = begin; number < end; ++number) {
        const Plan plan = plan_of(run, number);
        const auto kind = static_cast<std::size_t>(plan.traffic);
        const auto add = [&](std::size_t bytes) {
            sent.bytes[kind] += bytes;
            sent.messages[kind] += bytes > 0 ? 1 : 0;
        };
        ++sent.exchanges[kind];
        const bool gathers = plan.operation == Operation::all_gather ||
                             plan.operation == Operation::gather_in_place ||
                             plan.operation == Operation::records;
        if (run.way != Way::groups || !gathers) {
            for (std::size_t peer = 0; peer < plan.ranks(); ++peer)
                add(peer == rank ? 0 : plan.to[rank][peer].size);
            continue;
        }
        // Section 32: to the rank of each group that handles it, and from there to the group.
        ++sent.exchanges[kind];
        const std::vector<Stretch>& owned = plan.place.front();
        std::size_t first = 0;
        for (const int group : groups_of(run)) {
            const auto size = static_cast<std::size_t>(group);
            const auto handler = [&](std::size_t owner) { return first + owner * size / plan.ranks(); };
            add(handler(rank) == rank ? 0 : owned[rank].size);
            if (rank >= first && rank < first + size) {
                std::size_t handled = 0;
                for (std::size_t owner = 0; owner < plan.ranks(); ++owner)
                    handled += handler(owner) == rank ? owned[owner].size : 0;
                for (std::size_t other = 1; other < size; ++other)
                    add(handled);
            }
            first += size;
        }
    }
    return sent;
}

} // namespace truestep::properties::exchange
