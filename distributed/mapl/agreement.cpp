// Compares the settings of a boundary's two sides or of replicas, and names what differs.
#include "agreement.hpp"

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <truestep/distributed/agreed_values.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/problem/value_digest.hpp>

namespace truestep::distributed::mapl {

namespace {

using distributed::AgreedRecord;
using distributed::AgreedValue;

/// Who must agree: the two sides of a boundary, or the replicas of one side.
enum class AgreementGroup : std::uint8_t { sides, replicas };

std::vector<AgreedValue> values_of(const Settings& settings, const EndState& state, AgreementGroup among) {
    const bool replicas = among == AgreementGroup::replicas;
    const bool same_anchor =
        replicas || settings.anchors == Anchors::fixed || settings.anchors == Anchors::shared;
    std::vector<AgreedValue> values;
    visit_settings(settings, [&](const char* what, const auto& value, const auto&...) {
        values.push_back(agreed_value(what, value));
    });
    values.push_back(agreed_value("the step", state.steps));
    if (!replicas) // each replica has its own, and learns its codebooks by itself
        values.push_back(agreed_value("the micro-batch", state.micro_batches));
    values.push_back({"another subspace", problem::digest_of(state.a)});
    if (same_anchor)
        values.push_back({"another anchor", problem::digest_of(state.anchor) ^
                                                problem::mix64(problem::digest_of(state.rows))});
    if (!replicas)
        values.push_back({"another codebook", problem::digest_of(state.codebooks)});
    if (replicas) // only the sender has it
        values.push_back({"another first moment", problem::digest_of(state.m)});
    return values;
}

} // namespace

void agree(distributed::Peers& peers, int peer, Side side, const Settings& settings,
           const EndState& state) {
    const std::vector<AgreedValue> values = values_of(settings, state, AgreementGroup::sides);
    const auto mine = std::make_shared<AgreedRecord>(distributed::record_of(values));
    const auto incoming = peers.receive(distributed::Traffic::agreement, peer, 0, sizeof(AgreedRecord));
    peers.send(distributed::Traffic::agreement, peer, 0, mine, sizeof(AgreedRecord));
    AgreedRecord theirs{};
    std::memcpy(theirs.data(), incoming->wait(sizeof(AgreedRecord)), sizeof(AgreedRecord));
    const bool sends = side == Side::sender;
    const std::string sending = "the sender, rank " + std::to_string(sends ? peers.rank() : peer);
    const std::string receiving = "the receiver, rank " + std::to_string(sends ? peer : peers.rank());
    const std::string other = difference(values, sends ? *mine : theirs, sending, " where " + sending + ",",
                                         sends ? theirs : *mine);
    if (!other.empty())
        throw Error(receiving + ", has " + other + "; start both with the same");
}

void agree_among(distributed::Communicator& replicas, const Settings& settings, const EndState& state) {
    const std::vector<AgreedValue> values = values_of(settings, state, AgreementGroup::replicas);
    const auto all = distributed::gather_records(replicas, distributed::record_of(values));
    for (std::size_t replica = 1; replica < all.size(); ++replica)
        if (const std::string other =
                difference(values, all[0], "replica 0", " where replica 0", all[replica]);
            !other.empty())
            throw Error("replica " + std::to_string(replica) + " of the sender has " + other +
                        "; start all with the same");
}

void agree_on_rate(distributed::Communicator& replicas, double rate) {
    const auto all = distributed::gather_records(replicas, rate);
    for (std::size_t replica = 1; replica < all.size(); ++replica)
        if (all[replica] != all[0] && !(std::isnan(all[replica]) && std::isnan(all[0])))
            throw Error("replica " + std::to_string(replica) + " of the sender has the rate " +
                        shortest(all[replica]) + " where replica 0 has " + shortest(all[0]) +
                        "; give all the same");
}

} // namespace truestep::distributed::mapl
