// Compares the settings of a boundary's two sides or of replicas, and names what differs.
#include "agreement.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <string>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/problem/value_digest.hpp>

namespace truestep::distributed::mapl {

namespace {

std::string number(std::uint64_t bits) {
    return shortest(std::bit_cast<double>(bits));
}
std::string whole(std::uint64_t bits) {
    return std::to_string(bits);
}
template <class Choice>
std::string word(std::uint64_t bits) {
    return std::string(name(static_cast<Choice>(bits)));
}

/// A setting as it travels, and how a message shows it; without that the message only says that it
/// differs.
struct Field {
    const char* what;
    std::string (*told)(std::uint64_t bits);
};
constexpr std::array<Field, 21> fields{{{"width", whole},
                                        {"rank", whole},
                                        {"vocabulary", whole},
                                        {"anchors", word<Anchors>},
                                        {"order", word<Order>},
                                        {"beta", number},
                                        {"direction_iterations", whole},
                                        {"retraction_iterations", whole},
                                        {"seed", whole},
                                        {"payload", word<Payload>},
                                        {"codewords", whole},
                                        {"groups", whole},
                                        {"rounds", whole},
                                        {"subsets", whole},
                                        {"decay", number},
                                        {"the step", whole},
                                        {"the micro-batch", whole},
                                        {"subspace", nullptr},
                                        {"anchor", nullptr},
                                        {"codebook", nullptr},
                                        {"first moment", nullptr}}};
using Record = std::array<std::uint64_t, fields.size()>;

/// Who must agree: the two sides of a boundary, or the replicas of one side.
enum class AgreementGroup : std::uint8_t { sides, replicas };

Record record_of(const Settings& settings, const EndState& state, AgreementGroup among) {
    const auto index = [](auto value) { return static_cast<std::uint64_t>(value); };
    const bool replicas = among == AgreementGroup::replicas;
    const bool same_anchor =
        replicas || settings.anchors == Anchors::fixed || settings.anchors == Anchors::shared;
    return {index(settings.width),
            index(settings.rank),
            index(settings.vocabulary),
            index(settings.anchors),
            index(settings.order),
            std::bit_cast<std::uint64_t>(settings.beta),
            index(settings.direction_iterations),
            index(settings.retraction_iterations),
            settings.seed,
            index(settings.payload),
            index(settings.quantization.codewords),
            index(settings.quantization.groups),
            index(settings.quantization.rounds),
            index(settings.quantization.subsets),
            std::bit_cast<std::uint64_t>(settings.quantization.decay),
            index(state.steps),
            replicas ? 0 : index(state.micro_batches), // each replica has its own
            problem::digest_of(state.a),
            same_anchor ? problem::digest_of(state.anchor) ^ problem::mix64(problem::digest_of(state.rows))
                        : 0,
            replicas ? 0 : problem::digest_of(state.codebooks), // which each replica learns by itself
            replicas ? problem::digest_of(state.m) : 0};        // only the sender has it
}

/// The first setting in which the second record differs from the first, or nothing. `than` names
/// the first, and `where` introduces its value.
std::string otherwise(const Record& first, const std::string& than, const std::string& where,
                      const Record& second) {
    for (std::size_t i = 0; i < fields.size(); ++i)
        if (first[i] != second[i])
            return fields[i].told == nullptr
                       ? std::string("another ") + fields[i].what + " than " + than
                       : std::string(fields[i].what) + " " + fields[i].told(second[i]) + where + " has " +
                             fields[i].told(first[i]);
    return {};
}

} // namespace

void agree(distributed::Peers& peers, int peer, Side side, const Settings& settings,
           const EndState& state) {
    const auto mine = std::make_shared<Record>(record_of(settings, state, AgreementGroup::sides));
    const auto incoming = peers.receive(distributed::Traffic::agreement, peer, 0, sizeof(Record));
    peers.send(distributed::Traffic::agreement, peer, 0, mine, sizeof(Record));
    Record theirs{};
    std::memcpy(theirs.data(), incoming->wait(sizeof(Record)), sizeof(Record));
    const bool sends = side == Side::sender;
    const std::string sending = "the sender, rank " + std::to_string(sends ? peers.rank() : peer);
    const std::string receiving = "the receiver, rank " + std::to_string(sends ? peer : peers.rank());
    const std::string other =
        otherwise(sends ? *mine : theirs, sending, " where " + sending + ",", sends ? theirs : *mine);
    if (!other.empty())
        throw Error(receiving + ", has " + other + "; start both with the same");
}

void agree_among(distributed::Communicator& replicas, const Settings& settings, const EndState& state) {
    const std::vector<Record> all =
        distributed::gather_records(replicas, record_of(settings, state, AgreementGroup::replicas));
    for (std::size_t replica = 1; replica < all.size(); ++replica)
        if (const std::string other = otherwise(all[0], "replica 0", " where replica 0", all[replica]);
            !other.empty())
            throw Error("replica " + std::to_string(replica) + " of the sender has " + other +
                        "; start all with the same");
}

} // namespace truestep::distributed::mapl
