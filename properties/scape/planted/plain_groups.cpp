// Section 32: the mean on two levels, by handlers in each group and the owners of the ranges.
#include <numeric>

#include <truestep/problem/groups.hpp>

#include "plain_rank.hpp"

namespace truestep::properties::scape::planted {

namespace {

std::size_t sum_of(const std::vector<std::size_t>& counts) {
    return std::reduce(counts.begin(), counts.end());
}

} // namespace

void PlainRank::make_groups() {
    problem::Groups sizes = problem_.settings.groups;
    if (!problem::has_levels(sizes) || has(Bug::groups_forgotten))
        return;
    if (has(Bug::boundary_off_by_one) && sizes.front() > 1) {
        --sizes[0];
        ++sizes[1];
    }
    std::size_t first = 0;
    for (const int size : sizes) {
        groups_.push_back({first, at(size)});
        first += at(size);
    }
}

/// The rank of a group that handles an owner's values.
std::size_t PlainRank::handler(const GroupOfRanks& group, std::size_t owner) const {
    return group.first + owner * group.size / at(ranks_);
}

/// The group's sum of value j, of which each of its ranks has sent one.
float PlainRank::sum_of_group(const Floats& received, std::size_t values, std::size_t j) const {
    const std::size_t ranks = received.size() / values;
    const GroupOfRanks* mine = nullptr;
    for (const GroupOfRanks& group : groups_)
        if (at(me_) >= group.first)
            mine = &group;
    const std::size_t first = has(Bug::handler_first) ? at(me_) - mine->first : 0;
    float sum = received[first * values + j];
    for (std::size_t rank = 0; rank < ranks; ++rank)
        if (rank != first)
            sum = sum + received[rank * values + j];
    if (has(Bug::mean_of_means))
        sum = quotient(sum, static_cast<float>(ranks));
    if (has(Bug::sums_in_bf16) && format() == problem::Payload::bf16)
        sum = in_bf16(sum);
    return sum;
}

/// The mean of value j, of which each group has sent a sum.
float PlainRank::mean_of_groups(const Floats& received, std::size_t values, std::size_t j) const {
    const std::size_t groups = groups_.size();
    const auto of = [&](std::size_t group) {
        return received[(has(Bug::groups_backwards) ? groups - 1 - group : group) * values + j];
    };
    float sum = of(0);
    for (std::size_t group = 1; group < groups; ++group)
        sum = sum + of(group);
    const std::size_t divisor = has(Bug::mean_of_means) ? groups : at(ranks_);
    return has(Bug::sum_in_place_of_mean) ? sum : quotient(sum, static_cast<float>(divisor));
}

Floats PlainRank::exchanged_in_groups(const Bits& mask, const Floats& payload,
                                      const std::vector<std::size_t>& counts) {
    const auto ranks = at(ranks_);
    // First to the handlers of this rank's group: each gets the values of the owners that it handles.
    std::vector<std::size_t> to(ranks, 0);
    std::vector<std::size_t> from(ranks, 0);
    std::vector<std::size_t> handled(ranks, 0); // by owner, of this rank
    for (const GroupOfRanks& group : groups_) {
        if (at(me_) < group.first || at(me_) >= group.first + group.size)
            continue;
        for (std::size_t owner = 0; owner < ranks; ++owner) {
            to[handler(group, owner)] += counts[owner];
            if (handler(group, owner) == at(me_))
                handled[owner] = counts[owner];
        }
        for (std::size_t rank = group.first; rank < group.first + group.size; ++rank)
            from[rank] = sum_of(handled);
    }
    const Floats parts = sent_as_payload(payload, to, from);
    Floats sums(sum_of(handled), 0.0F);
    for (std::size_t j = 0; j < sums.size(); ++j)
        sums[j] = sum_of_group(parts, sums.size(), j);

    // Then the groups' sums to the owners, in fp32.
    std::vector<std::size_t> from_groups(ranks, 0);
    for (const GroupOfRanks& group : groups_)
        from_groups[handler(group, at(me_))] = counts[at(me_)];
    const Floats of_groups = exchange_values(distributed::Traffic::payload, sums, handled, from_groups);
    Floats means(counts[at(me_)], 0.0F);
    for (std::size_t j = 0; j < means.size(); ++j)
        means[j] = mean_of_groups(of_groups, means.size(), j);
    round_own_means(mask, means);
    return gathered_in_groups(means, counts);
}

/// Sends the means back the same ways: from the owner to a handler in each group, and from there to the
/// whole group.
Floats PlainRank::gathered_in_groups(const Floats& mine, const std::vector<std::size_t>& counts) {
    const auto ranks = at(ranks_);
    std::vector<std::size_t> to(ranks, 0);
    std::vector<std::size_t> from(ranks, 0);
    std::vector<std::size_t> to_all(ranks, 0);
    std::vector<std::size_t> from_all(ranks, 0);
    Floats copies;
    for (const GroupOfRanks& group : groups_) {
        to[handler(group, at(me_))] = mine.size();
        copies.insert(copies.end(), mine.begin(), mine.end());
        if (at(me_) < group.first || at(me_) >= group.first + group.size)
            continue;
        for (std::size_t owner = 0; owner < ranks; ++owner) {
            from_all[handler(group, owner)] += counts[owner];
            if (handler(group, owner) == at(me_))
                from[owner] = counts[owner];
        }
        for (std::size_t rank = group.first; rank < group.first + group.size; ++rank)
            to_all[rank] = sum_of(from);
    }
    const Floats block = exchange_values(distributed::Traffic::moment, copies, to, from);
    copies.clear();
    for (const std::size_t count : to_all)
        copies.insert(copies.end(), block.begin(), block.begin() + static_cast<std::ptrdiff_t>(count));
    return exchange_values(distributed::Traffic::moment, copies, to_all, from_all);
}

/// Sends each rank its values and receives its values for this rank: sums as floats, means in the format of
/// means.
Floats PlainRank::exchange_values(distributed::Traffic traffic, const Floats& sent,
                                  const std::vector<std::size_t>& to,
                                  const std::vector<std::size_t>& from) {
    const std::size_t bytes = traffic == distributed::Traffic::moment ? bytes_of_a_mean() : sizeof(float);
    const auto in_bytes = [bytes](std::vector<std::size_t> counts) {
        for (std::size_t& count : counts)
            count *= bytes;
        return counts;
    };
    const std::vector<char> sent_bytes = narrow(sent, bytes);
    std::vector<char> received(sum_of(from) * bytes);
    communicator_
        .start_all_to_all(traffic, sent_bytes.data(), in_bytes(to), received.data(), in_bytes(from))
        ->wait();
    return wide(received, bytes);
}

} // namespace truestep::properties::scape::planted
